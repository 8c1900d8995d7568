#pragma once
#include <cstdint>

#include "base/fs.h"
#include "checkpoint/reader.h"
#include "journal.h"
#include "output_plan.h"
#include "progress.h"

/// Carries a plan out: worker threads make windows and write them past the page cache, in bounded memory.
namespace echelon::tool {

/// The most that fit into `memory_bytes` with everything else that is held, at most `jobs`; jobs 0: one for
/// each core, at most 4. Throws Error(kUsage) naming the least that would do when not even one fits.
[[nodiscard]] int workers_within(std::uint64_t memory_bytes, int jobs, const OutputPlan& plan);

/// Writes the plan's files under `output`: the folder they lie in, or the file itself. Windows that the
/// journal names are taken over when their bytes agree with it. At the end the checksums of the parts must
/// combine to those of the tensors at their save. Durable on return, the folder's entries excepted. Throws
/// Error(kCheckpoint), and Interrupted after a signal.
void assemble(const checkpoint::Reader& reader, const OutputPlan& plan, const fs::Path& output,
              Journal& journal, int workers, Progress& progress);

}  // namespace echelon::tool
