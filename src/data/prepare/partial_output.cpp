#include "data/prepare/partial_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/kill_point.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/foreign_json.h"
#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::data {
namespace {

constexpr const char* kNote = "note.json";
constexpr const char* kLock = "lock";

/// A lock of a file and not of the folder, because NFS locks no folders.
fs::Fd lock(const fs::Path& file, const std::string& output) {
  fs::Fd fd = fs::open_own(file, O_RDWR | O_CREAT, Code::kData);
  struct stat info {};
  const bool taken = ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  // Without a name, the file was removed by one that ended just now.
  if (!taken && ::fstat(fd.get(), &info) == 0 && info.st_nlink > 0) return fd;
  throw Error(Code::kData, "another `echelon prepare` is writing to '", output, "': wait for it");
}

/// The names of the values that are not the same in both.
std::string differences(const nlohmann::json& left, const nlohmann::json& right) {
  std::vector<std::string> names;
  for (const auto& [name, value] : right.items()) {
    if (!left.is_object() || json_text(left.value(name, nlohmann::json())) != json_text(value))
      names.push_back(name);
  }
  return join(names, ", ");
}

}  // namespace

PartialOutput::PartialOutput(const PrepareOptions& options, const nlohmann::ordered_json& identity,
                             const ProgressCallback& progress)
    : folder_(folder_in(options.output)),
      identity_(identity),
      interval_(options.save_every_s),
      due_(Clock::now() + interval_) {
  fs::make_directories(folder_, Code::kData);
  lock_ = lock(folder_ / kLock, options.output);
  fs::remove_drafts(folder_);
  read_note(progress);
}

PartialOutput::~PartialOutput() {
  if (folder_.empty() || !state_.is_null()) return;
  try {
    remove();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it stays, and the next start removes it
  }
}

void PartialOutput::read_note(const ProgressCallback& progress) {
  const auto note = [&] {
    try {
      return read_foreign_json(fs::read_own_file(folder_ / kNote, std::uint64_t{1} << 24, Code::kData)).value;
    } catch (const Error&) {
      return nlohmann::json();
    }
  }();
  const auto made_from = note.is_object() ? note.value("made_from", nlohmann::json()) : nlohmann::json();
  const std::string other = differences(made_from, identity_);
  if (note.is_object() && other.empty()) {
    state_ = note.value("state", nlohmann::json());
    return;
  }
  if (note.is_object())
    progress(
        {.remark = str("starting anew: '", folder_.string(), "' is left from a start with other ", other),
         .anew = true});
  for (const fs::Path& entry : fs::list_folder(folder_, Code::kData)) {
    if (entry.filename() != kLock) fs::remove_tree(entry, Code::kData);
  }
  save(nullptr);
}

void PartialOutput::save(nlohmann::json state) {
  state_ = std::move(state);
  const nlohmann::json note{{"made_from", identity_}, {"state", state_}};
  fs::publish_file(folder_ / kNote, json_text(note) + "\n", Code::kData);
  kill_point("prepare_saved");
  due_ = Clock::now() + interval_;
}

void PartialOutput::remove() {
  fs::remove_tree(std::exchange(folder_, {}), Code::kData);
}

}  // namespace echelon::data
