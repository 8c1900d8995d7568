#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "base/files/fs.h"
#include "metrics/csv.h"
#include "metrics/event_file.h"

namespace echelon::metrics {

/// The files that a run writes beside its metrics.jsonl.
struct ExportOptions {
  bool tensorboard = false;  ///< tensorboard/events.out.tfevents.*
  bool prometheus = false;   ///< metrics.prom, replaced with every line
  bool csv = false;          ///< metrics.csv
};

/// Writes those files while a run goes on, line by line. A file that cannot be written is a warning, once
/// until it can be written again; nothing is thrown, because metrics.jsonl has everything and
/// `echelon metrics` makes the files from it.
class LiveExports {
 public:
  LiveExports() = default;  ///< none
  /// `source`: the run's metrics.jsonl, in the folder that the files go to. Values that earlier starts wrote
  /// for steps after `resumed_step` are taken back.
  LiveExports(std::filesystem::path source, const ExportOptions& options, std::int64_t resumed_step);

  /// `text`: the line that was just added to metrics.jsonl.
  void append(std::string_view text);

 private:
  void to_tensorboard(const Line& line);
  void to_prometheus(const Line& line);
  void to_csv(const Line& line);
  void attempt(bool& failed, const char* what, const std::function<void()>& write) const;

  std::filesystem::path source_;
  ExportOptions options_;
  std::optional<std::int64_t> purge_from_;  ///< for the next event file
  std::optional<EventFile> events_;
  CsvColumns columns_;
  fs::Fd csv_;
  bool tensorboard_failed_ = false;
  bool prometheus_failed_ = false;
  bool csv_failed_ = false;
};

}  // namespace echelon::metrics
