#pragma once
#include <cstdint>

#include "base/files/fs.h"
#include "checkpoints_tool/convert/journal.h"
#include "checkpoints_tool/convert/output_plan.h"
#include "checkpoints_tool/convert/tensor_source.h"
#include "checkpoints_tool/progress.h"

/// Carries out a plan: worker threads fill windows and write them, bypassing the page cache, in bounded
/// memory.
namespace echelon::tool {

/// Threads, and how large a tile each of them may hold.
struct Workers {
  int count = 1;
  std::uint64_t tile_bytes = kWindowBytes;
};

/// Returns as many workers as fit into `memory_bytes` beside all other memory, at most `jobs`; jobs 0: one
/// for each core, at most 4. Throws Error(kUsage), naming the least memory that suffices, if not even one
/// fits.
[[nodiscard]] Workers workers_within(std::uint64_t memory_bytes, int jobs, const OutputPlan& plan);

/// Writes the plan's files under `output`: the folder they lie in, or the file itself. Windows and tiles that
/// the journal names are taken over when their bytes agree with it; tiles were cut alike only by the same
/// tile_bytes. At the end the checksums of the parts must combine to those of the tensors at their save.
/// Durable on return, the folder's entries excepted. Throws Error(kCheckpoint), and Interrupted after a
/// signal.
void assemble(const TensorSource& source, const OutputPlan& plan, const fs::Path& output, Journal& journal,
              const Workers& workers, Progress& progress);

}  // namespace echelon::tool
