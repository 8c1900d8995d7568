#include "metrics/live_exports.h"

#include <fcntl.h>

#include <span>
#include <utility>

#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/str.h"
#include "metrics/prometheus.h"

namespace echelon::metrics {

LiveExports::LiveExports(std::filesystem::path source, const ExportOptions& options,
                         std::int64_t resumed_step)
    : source_(std::move(source)), options_(options), purge_from_(resumed_step + 1) {}

void LiveExports::append(std::string_view text) {
  if (!options_.tensorboard && !options_.prometheus && !options_.csv) return;
  const std::optional<Line> line = parse_line(text);
  if (!line) return;
  if (options_.tensorboard)
    attempt(tensorboard_failed_, "TensorBoard's event file", [&] { to_tensorboard(*line); });
  if (options_.prometheus) attempt(prometheus_failed_, "metrics.prom", [&] { to_prometheus(*line); });
  if (options_.csv) attempt(csv_failed_, "metrics.csv", [&] { to_csv(*line); });
}

void LiveExports::attempt(bool& failed, const char* what, const std::function<void()>& write) const {
  try {
    write();
    failed = false;
  } catch (const std::exception& e) {
    if (!std::exchange(failed, true))
      log::warn(str(what, " misses lines; `echelon metrics` makes it from metrics.jsonl: ", e.what()));
  }
}

void LiveExports::to_tensorboard(const Line& line) {
  try {
    if (events_ && !events_->is_last()) {  // `echelon metrics` has written all lines so far to a later file
      events_.reset();
      purge_from_ = line.step;
    }
    if (!events_) {
      const std::filesystem::path folder = source_.parent_path() / "tensorboard";
      fs::make_directories(folder, Code::kEnvironment);
      events_.emplace(folder, line.time_s, purge_from_);
      purge_from_.reset();
    }
    events_->append(line);
  } catch (...) {
    // Readers stop at a torn record: the next line begins a new file.
    events_.reset();
    throw;
  }
}

void LiveExports::to_prometheus(const Line& line) {
  fs::replace_file(source_.parent_path() / "metrics.prom", prometheus_page(run_label(source_), line),
                   Code::kEnvironment);
}

void LiveExports::to_csv(const Line& line) {
  const std::filesystem::path path = source_.parent_path() / "metrics.csv";
  if (csv_.valid() && columns_.cover(line)) {
    const std::string row = columns_.row(line);
    try {
      fs::write_at(csv_, 0, std::as_bytes(std::span(row)), Code::kEnvironment, path);
    } catch (...) {
      csv_ = {};  // the row may be torn: the next line writes the file anew
      throw;
    }
    return;
  }
  // At a start's first line, and at a line with a new value, all lines are written again, this one included.
  csv_ = {};
  fs::NewFile file(fs::draft_name(path), Code::kEnvironment);
  write_csv(source_, columns_, [&](std::string_view text) { file.append(text); });
  file.close();
  file.rename(path);
  csv_ = fs::open_own(path, O_WRONLY | O_APPEND, Code::kEnvironment);
}

}  // namespace echelon::metrics
