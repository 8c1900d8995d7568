#include "metrics/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iomanip>
#include <span>

#include "base/checksum/crc32c.h"
#include "base/files/own_file.h"
#include "base/process/process.h"
#include "base/str.h"
#include "metrics/protobuf.h"

namespace echelon::metrics {
namespace {

using namespace protobuf;  // NOLINT: the words of the wire format

// Numbers of fields.
namespace event {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
}  // namespace event
namespace summary {
constexpr int kValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueNumber = 2;
}  // namespace summary
namespace session_log {
constexpr int kStatus = 1;
constexpr std::uint64_t kStart = 1;
}  // namespace session_log

std::string header(double time_s, std::int64_t step) {
  return key(event::kWallTime, kFixed64) + little_endian(time_s) +
         varint_field(event::kStep, static_cast<std::uint64_t>(step));
}

/// So that a CRC of bytes that contain their CRC is not trivial (TensorFlow's crc32c.h).
std::string masked_crc(const std::string& bytes) {
  constexpr std::uint32_t kMaskDelta = 0xa282ead8U;
  return little_endian(std::rotr(crc32c(bytes), 15) + kMaskDelta);
}

std::string record(const std::string& bytes) {
  const std::string length = little_endian(static_cast<std::uint64_t>(bytes.size()));
  return length + masked_crc(length) + bytes + masked_crc(bytes);
}

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr int kDigits = 10;

/// TensorBoard reads files by name, so the number behind the prefix must rise.
std::int64_t next_number(const std::filesystem::path& folder, std::int64_t number) {
  for (const std::filesystem::path& file : fs::list_folder(folder, Code::kEnvironment)) {
    const std::string name = file.filename().string();
    std::int64_t other = 0;
    if (!name.starts_with(kPrefix)) continue;
    const std::string digits = name.substr(kPrefix.size(), kDigits);
    std::from_chars(digits.data(), digits.data() + digits.size(), other);
    number = std::max(number, other + 1);
  }
  return number;
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, double time_s,
                     std::optional<std::int64_t> purge_from) {
  number_ = next_number(folder, static_cast<std::int64_t>(std::clamp(time_s, 0.0, 9e9)));
  path_ =
      folder / str(kPrefix, std::setfill('0'), std::setw(kDigits), number_, '.', host_name(), '.', getpid());
  file_ = fs::open_own(path_, O_WRONLY | O_CREAT | O_EXCL, Code::kEnvironment);
  std::string records = record(header(time_s, 0) + bytes_field(event::kFileVersion, "brain.Event:2"));
  if (purge_from) {
    const std::string start = varint_field(session_log::kStatus, session_log::kStart);
    records += record(header(time_s, *purge_from) + bytes_field(event::kSessionLog, start));
  }
  write(records);
}

bool EventFile::is_last() const {
  return next_number(path_.parent_path(), 0) == number_ + 1;
}

void EventFile::append(const Line& line) {
  std::string values;
  for (const Value& value : line.values) {
    if (value.is_when()) continue;
    values += bytes_field(summary::kValue, bytes_field(summary::kValueTag, value.tag) +
                                               key(summary::kValueNumber, kFixed32) +
                                               little_endian(static_cast<float>(value.value)));
  }
  write(record(header(line.time_s, line.step) + bytes_field(event::kSummary, values)));
}

void EventFile::write(const std::string& records) {
  fs::write_at(file_, end_, std::as_bytes(std::span(records)), Code::kEnvironment, path_);
  end_ += records.size();
}

}  // namespace echelon::metrics
