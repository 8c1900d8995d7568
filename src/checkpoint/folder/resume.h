#pragma once
#include <filesystem>

#include "checkpoint/options.h"

namespace echelon::checkpoint {

/// Throws Error(kUsage) if `resume` does not allow what a start found: commits, whole or damaged, in
/// `checkpoints` (`on_disk`), or in the nodes' memory. Later starts of a job go on with kNever: what they
/// find is of the job's first start, which found nothing.
void check_resume(Resume resume, const std::filesystem::path& checkpoints, bool on_disk, bool in_memory);

}  // namespace echelon::checkpoint
