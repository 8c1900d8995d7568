#include "app/supervise/run_steps.h"

#include <algorithm>
#include <utility>

#include "checkpoint/format/names.h"

namespace echelon::supervise {

std::int64_t committed_step(const std::filesystem::path& run_dir) {
  std::pair<std::filesystem::file_time_type, std::int64_t> newest{std::filesystem::file_time_type::min(), 0};
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(run_dir / "checkpoints", ignored), end; entry != end;
       entry.increment(ignored)) {
    const auto name = checkpoint::parse_step_folder(entry->path().filename().string());
    std::error_code missing;
    const auto time = std::filesystem::last_write_time(entry->path() / checkpoint::kCommitFile, missing);
    if (name && !missing) newest = std::max(newest, {time, name->step});
  }
  return newest.second;
}

}  // namespace echelon::supervise
