#include "resumable_output.h"

#include "base/crc32c.h"
#include "checkpoint/json.h"
#include "partial_output.h"

namespace echelon::tool {
namespace {

constexpr std::string_view kMark = ".partial-";

}  // namespace

ResumableOutput::ResumableOutput(fs::Path path, const fs::Path& checkpoint, const std::string& identity)
    : final_(checked_output(std::move(path), checkpoint)) {
  const std::uint32_t id = crc32c(std::as_bytes(std::span(identity)));
  folder_ = final_.string() + std::string(kMark) + checkpoint::checksum_text(id);
  fs::make_directories(folder_, Code::kCheckpoint);
  owner_.emplace(folder_);
}

ResumableOutput::~ResumableOutput() {
  if (kept_) return;
  try {
    fs::remove_tree(folder_, Code::kCheckpoint);
  } catch (const Error&) {  // the error that brought us here counts
  }
}

std::vector<fs::Path> ResumableOutput::strangers() const {
  std::vector<fs::Path> found;
  const std::string begin = final_.filename().string() + std::string(kMark);
  for (const fs::Path& entry : fs::list_folder(folder_of(final_), Code::kCheckpoint)) {
    const std::string name = entry.filename().string();
    if (name.starts_with(begin) && name != folder_.filename().string()) found.push_back(entry);
  }
  return found;
}

void ResumableOutput::publish() {
  publish_output(output(), final_);
}

}  // namespace echelon::tool
