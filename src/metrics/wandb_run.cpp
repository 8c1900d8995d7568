#include "metrics/wandb_run.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "base/utc_time.h"
#include "metrics/protobuf.h"

namespace echelon::metrics {
namespace {

using protobuf::bytes_field;
using protobuf::varint_field;

// Numbers of fields of wandb_internal.proto.
namespace record_field {
constexpr int kNumber = 1;
constexpr int kHistory = 2;
constexpr int kSummary = 3;
constexpr int kRun = 17;
constexpr int kExit = 18;
constexpr int kHeader = 21;
}  // namespace record_field
namespace run_field {
constexpr int kId = 1;
constexpr int kProject = 3;
constexpr int kConfig = 4;
constexpr int kDisplayName = 8;
constexpr int kStartTime = 17;
}  // namespace run_field
namespace item_field {
constexpr int kKey = 1;
constexpr int kNestedKey = 2;
constexpr int kJson = 16;
}  // namespace item_field
constexpr int kItem = 1;  ///< in the records of history, summary and configuration
constexpr int kHistoryStep = 2;

constexpr std::size_t kBlock = 32768;
constexpr std::size_t kRecordHeader = 7;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
enum Part : std::uint8_t { kFull = 1, kFirst, kMiddle, kLast };

/// The name is one key: a '/' in it makes no levels.
std::string item(const std::string& name, const std::string& json) {
  return bytes_field(kItem, bytes_field(item_field::kNestedKey, name) + bytes_field(item_field::kJson, json));
}

std::string timestamp(double time_s) {
  const double whole = std::floor(time_s);
  return varint_field(1, static_cast<std::uint64_t>(whole)) +
         varint_field(2, static_cast<std::uint64_t>((time_s - whole) * 1e9));
}

}  // namespace

WandbRun::WandbRun(const std::filesystem::path& folder, const TrackedRun& run, double began_s)
    : folder_(made(folder / str("offline-run-", utc_text(began_s, "%Y%m%d_%H%M%S"), '-', run.id))),
      path_(folder_ / str("run-", run.id, ".wandb")),
      file_(fs::draft_name(path_), Code::kEnvironment),
      began_s_(began_s),
      last_s_(began_s) {
  waiting_ = std::string(":W&B\xE1\xBE\0", kRecordHeader);
  end_ = waiting_.size();
  record(bytes_field(record_field::kHeader, bytes_field(1, bytes_field(1, "echelon"))));
  std::string config;
  for (const TrackedRun::Parameter& parameter : run.parameters) {
    config += bytes_field(
        1, bytes_field(item_field::kKey, parameter.name) + bytes_field(item_field::kJson, parameter.json));
  }
  record(bytes_field(record_field::kRun, bytes_field(run_field::kId, run.id) +
                                             bytes_field(run_field::kProject, run.project) +
                                             bytes_field(run_field::kConfig, config) +
                                             bytes_field(run_field::kDisplayName, run.name) +
                                             bytes_field(run_field::kStartTime, timestamp(began_s))));
}

void WandbRun::append(const Line& line) {
  std::string history;
  for (const Value& value : line.values) {
    if (value.is_when()) continue;
    std::string& text = newest_[value.tag];
    text = number_text(value.value);
    history += item(value.tag, text);
  }
  last_s_ = std::max(last_s_, line.time_s);
  newest_["_step"] = std::to_string(line.step);
  newest_["_timestamp"] = number_text(last_s_);
  newest_["_runtime"] = number_text(last_s_ - began_s_);
  for (const char* name : {"_step", "_timestamp", "_runtime"}) history += item(name, newest_[name]);
  history += bytes_field(kHistoryStep, varint_field(1, static_cast<std::uint64_t>(line.step)));
  record(bytes_field(record_field::kHistory, history));
}

std::filesystem::path WandbRun::finish() {
  std::string summary;
  for (const auto& [name, text] : newest_) summary += item(name, text);
  record(bytes_field(record_field::kSummary, summary));
  record(bytes_field(record_field::kExit, varint_field(2, static_cast<std::uint64_t>(last_s_ - began_s_))));
  flush();
  file_.finish();
  file_.publish(path_);
  return folder_;
}

void WandbRun::record(std::string_view message) {
  const std::string numbered = varint_field(record_field::kNumber, ++records_) + std::string(message);
  std::string_view left = numbered;
  for (bool first = true; first || !left.empty(); first = false) {
    std::size_t room = kBlock - end_ % kBlock;
    if (room < kRecordHeader) {  // a header is not divided
      waiting_.append(room, '\0');
      end_ += room;
      room = kBlock;
    }
    const std::string_view part = left.substr(0, room - kRecordHeader);
    left.remove_prefix(part.size());
    const char type =
        static_cast<char>(first ? (left.empty() ? kFull : kFirst) : (left.empty() ? kLast : kMiddle));
    uLong crc = crc32(0, reinterpret_cast<const Bytef*>(&type), 1);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    waiting_ += protobuf::little_endian(static_cast<std::uint32_t>(crc)) +
                protobuf::little_endian(static_cast<std::uint16_t>(part.size())) + type;
    waiting_ += part;
    end_ += kRecordHeader + part.size();
  }
  if (waiting_.size() >= kWriteBytes) flush();
}

void WandbRun::flush() {
  file_.append(waiting_);
  waiting_.clear();
}

}  // namespace echelon::metrics
