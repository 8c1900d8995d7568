#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files/fs.h"
#include "metrics/line.h"

namespace echelon::metrics {

/// A TensorBoard event file: TFRecords (length, masked CRC-32C, bytes, masked CRC-32C) of Event messages in
/// the protobuf wire format, as tensorboard/compat/proto/event.proto and summary.proto describe them. Values
/// become scalars in single precision, the only one of a scalar summary.
class EventFile {
 public:
  /// Makes a new file in `folder`, which exists; TensorBoard reads it after the files that are there.
  /// `purge_from`: values of this step and later ones in earlier files no longer count. Throws Error(kUsage).
  EventFile(const std::filesystem::path& folder, double time_s, std::optional<std::int64_t> purge_from);

  void append(const Line& line);
  /// Returns whether TensorBoard reads no file after this one.
  [[nodiscard]] bool is_last() const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void write(const std::string& records);

  std::filesystem::path path_;
  std::int64_t number_ = 0;  ///< in its name
  fs::Fd file_;
  std::uint64_t end_ = 0;
};

}  // namespace echelon::metrics
