#include "app/supervise/run_steps.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "run/goodput.h"
#include "run/run_folder.h"

namespace echelon::supervise {
namespace {

constexpr std::uint64_t kMostBytesOfOwner = 4096;
constexpr std::uint64_t kMostBytesOfAccount = std::uint64_t{64} << 20;

}  // namespace

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

std::int64_t resumed_step(const std::filesystem::path& run_dir, const std::string& job,
                          std::int64_t requeues) {
  std::int64_t highest = 0;
  try {
    const std::string text =
        fs::read_own_file(run_dir / "goodput.json", kMostBytesOfAccount, Code::kEnvironment);
    for (const RunStart& start : Goodput::parse(text).starts) {
      if (start.job == job && start.restart == requeues) highest = std::max(highest, start.first_step);
    }
  } catch (const Error&) {
    return 0;
  }
  return highest;
}

std::optional<std::string> last_opening(const std::filesystem::path& run_dir) {
  try {
    // The client of a file server remembers for a while that a file is missing, but reads a folder anew.
    for (const std::filesystem::path& path : fs::list_folder(run_dir, Code::kEnvironment)) {
      if (path.filename() != kRunLock) continue;
      const std::string owner = fs::read_own_file(path, kMostBytesOfOwner, Code::kEnvironment);
      return str(owner, " ", std::filesystem::last_write_time(path).time_since_epoch().count());
    }
    return "";
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace echelon::supervise
