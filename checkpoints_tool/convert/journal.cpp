#include "checkpoints_tool/convert/journal.h"

#include <fcntl.h>

#include <cerrno>
#include <optional>
#include <span>
#include <sstream>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "checkpoint/format/json.h"

namespace echelon::tool {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

/// A line: checksum of what follows it, window, checksum of the window, those of its parts.
std::string line_of(const WindowRecord& record) {
  std::string text = str(record.window, ' ', record.crc);
  for (const std::uint32_t part : record.parts) text += str(' ', part);
  return str(checkpoint::checksum_text(crc32c(text)), ' ', text, '\n');
}

/// The record that a line states; nothing if the line is not whole.
std::optional<WindowRecord> record_in(const std::string& line) {
  std::istringstream words(line);
  std::string checksum;
  WindowRecord record;
  words >> checksum >> record.window >> record.crc;
  for (std::uint32_t part = 0; words >> part;) record.parts.push_back(part);
  return line_of(record) == line ? std::optional(record) : std::nullopt;
}

}  // namespace

Journal::Journal(fs::Path path, const std::string& identity)
    : path_(std::move(path)), fd_(fs::open_own(path_, O_RDWR | O_CREAT, Code::kCheckpoint)) {
  const std::string header =
      str(checkpoint::fingerprint_text(crc64(std::as_bytes(std::span(identity)))), '\n');
  const std::string text = fs::read_all(fd_, kMaxBytes, Code::kCheckpoint, path_);
  const bool ours = text.starts_with(header);
  end_ = ours ? header.size() : 0;
  while (ours) {
    const std::size_t next = text.find('\n', end_) + 1;  // 0: there is none
    const auto record = next == 0 ? std::nullopt : record_in(text.substr(end_, next - end_));
    if (!record) break;
    end_ = next;
    earlier_[record->window] = *record;
  }
  if (fs::disk().ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) {
    throw Error(Code::kCheckpoint, "cannot shorten '", path_.string(), "': ", fs::reason(errno));
  }
  if (!ours) {
    fs::write_at(fd_, 0, std::as_bytes(std::span(header)), Code::kCheckpoint, path_);
    end_ = header.size();
  }
}

void Journal::append(const WindowRecord& record) {
  const std::string line = line_of(record);
  const Lock lock(appending_);
  fs::write_at(fd_, end_, std::as_bytes(std::span(line)), Code::kCheckpoint, path_);
  end_ += line.size();
}

}  // namespace echelon::tool
