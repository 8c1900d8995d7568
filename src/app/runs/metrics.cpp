#include <array>
#include <filesystem>
#include <iostream>
#include <string>

#include "app/commands.h"
#include "base/checksum/crc32c.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/utc_time.h"
#include "metrics/csv.h"
#include "metrics/event_file.h"
#include "metrics/mlflow_run.h"
#include "metrics/prometheus.h"
#include "metrics/wandb_run.h"
#include "recipe/keys/keys.h"
#include "recipe/parse.h"
#include "recipe/yaml/json_value.h"

namespace echelon {

/// The output of `echelon metrics`.
enum class MetricsFormat : std::uint8_t { kCsv, kTensorboard, kPrometheus, kWandb, kMlflow };
template <>
inline constexpr std::array<std::string_view, 5> kWords<MetricsFormat>{"csv", "tensorboard", "prometheus",
                                                                       "wandb", "mlflow"};

}  // namespace echelon

namespace echelon::app {
namespace {

namespace stdfs = std::filesystem;

struct MetricsArguments {
  std::string run;
  MetricsFormat to = MetricsFormat::kCsv;
  std::string output;
};

/// metrics.jsonl of a run folder, or the file itself.
stdfs::path source_of(const std::string& run) {
  const stdfs::path path = run;
  if (!stdfs::is_directory(path)) {
    if (stdfs::exists(path)) return path;
    throw Error(Code::kUsage, "metrics: there is no '", run, "'; expected a run folder or its metrics.jsonl");
  }
  const stdfs::path file = path / "metrics.jsonl";
  if (stdfs::exists(file)) return file;
  throw Error(Code::kUsage, "metrics: '", run,
              "' has no metrics.jsonl; expected the folder of a run that has "
              "logged a step (run.dir of its recipe)");
}

/// Standard output, or a file that exists complete or not at all.
class Output {
 public:
  Output(stdfs::path name, const stdfs::path& source) : name_(std::move(name)) {
    fs::require_output(name_, source);
  }
  /// The first text begins the file: one without lines leaves nothing behind.
  void write(std::string_view text) {
    if (name_.empty()) {
      std::cout << text;
      return;
    }
    if (!file_) file_.emplace(fs::draft_name(name_), Code::kEnvironment);
    file_->append(text);
  }
  void finish() {
    if (!file_) return;
    file_->finish();
    file_->publish(name_);
  }

 private:
  stdfs::path name_;
  std::optional<fs::NewFile> file_;
};

metrics::LineCounts to_csv(const stdfs::path& source, const std::string& output) {
  metrics::CsvColumns columns;
  Output out(output, source);
  const metrics::LineCounts counts =
      metrics::write_csv(source, columns, [&](std::string_view text) { out.write(text); });
  out.finish();
  return counts;
}

metrics::LineCounts to_tensorboard(const stdfs::path& source, const stdfs::path& folder) {
  std::optional<metrics::EventFile> events;
  const metrics::LineCounts counts = metrics::for_each_line(source, [&](const metrics::Line& line) {
    if (!events) {
      fs::make_directories(folder, Code::kUsage);
      events.emplace(folder, utc_now_s(), 0);  // in place of what the folder has of this run
    }
    events->append(line);
  });
  if (events) std::cout << events->path().string() << '\n';
  return counts;
}

metrics::LineCounts to_prometheus(const stdfs::path& source, const std::string& output) {
  std::optional<metrics::Line> newest;
  Output out(output, source);
  const metrics::LineCounts counts =
      metrics::for_each_line(source, [&](const metrics::Line& line) { newest = line; });
  if (!newest) return counts;
  out.write(metrics::prometheus_page(metrics::run_label(source), *newest));
  out.finish();
  return counts;
}

/// The run of a metrics.jsonl. Its parameters are those of recipe.yaml beside it, if it has one.
metrics::TrackedRun tracked_run(const stdfs::path& source, double began_s) {
  metrics::TrackedRun run{.name = metrics::run_label(source), .project = "echelon"};
  for (const std::string& part : {stdfs::weakly_canonical(source).string(), metrics::number_text(began_s)})
    run.id += hex_digits(crc32c(part), 8);
  const stdfs::path file = source.parent_path() / "recipe.yaml";
  if (!stdfs::exists(file)) return run;
  try {
    constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
    const Recipe recipe =
        recipe::parse_stored_recipe(file.string(), fs::read_file(file, kMostBytes, Code::kEnvironment));
    for (const recipe::Key& key : recipe::keys())
      run.parameters.push_back({key.path, recipe::json_value(key, recipe).dump()});
  } catch (const Error& error) {
    log::warn(str("the parameters of the recipe are left out: ", error.what()));
  }
  return run;
}

/// As a Run of an experiment tracker.
template <class Run>
metrics::LineCounts to_tracker(const stdfs::path& source, const stdfs::path& folder) {
  std::optional<Run> run;
  const metrics::LineCounts counts = metrics::for_each_line(source, [&](const metrics::Line& line) {
    if (!run) {
      fs::make_directories(folder, Code::kUsage);
      run.emplace(folder, tracked_run(source, line.time_s), line.time_s);
    }
    run->append(line);
  });
  if (run) std::cout << run->finish().string() << '\n';
  return counts;
}

metrics::LineCounts write(MetricsFormat to, const stdfs::path& source, const std::string& output) {
  const auto folder = [&](const char* usual) {
    return output.empty() ? source.parent_path() / usual : stdfs::path(output);
  };
  switch (to) {
    case MetricsFormat::kCsv: return to_csv(source, output);
    case MetricsFormat::kTensorboard: return to_tensorboard(source, folder("tensorboard"));
    case MetricsFormat::kPrometheus: return to_prometheus(source, output);
    case MetricsFormat::kWandb: return to_tracker<metrics::WandbRun>(source, folder("wandb"));
    case MetricsFormat::kMlflow: return to_tracker<metrics::MlflowRun>(source, folder("mlruns"));
  }
  return {};
}

void export_metrics(const MetricsArguments& arguments) {
  const stdfs::path source = source_of(arguments.run);
  const metrics::LineCounts counts = write(arguments.to, source, arguments.output);
  if (counts.lines == 0) {
    throw Error(Code::kUsage, "metrics: '", source.string(),
                "' has no line of metrics; expected a metrics.jsonl that a run has written");
  }
  if (counts.left_out > 0)
    log::warn(str(counts.left_out, " lines of '", source.string(), "' are no metrics and were left out"));
}

}  // namespace

void add_metrics(CLI::App& app, int&) {
  const auto [command, arguments] = add_command<MetricsArguments>(
      app, "metrics", "Write the metrics of a run as CSV, or for TensorBoard, Prometheus, W&B or MLflow",
      export_metrics);
  command.add_option("run", arguments.run, "Run folder, or a metrics.jsonl")->required();
  add_choice(command, "--to", arguments.to,
             "csv: a row for each line; tensorboard: an event file; prometheus: the newest line; wandb: an "
             "offline run for 'wandb sync'; mlflow: a run in a file store")
      ->required();
  command.add_option(
      "-o,--output", arguments.output,
      "csv, prometheus: a file (default: standard output); tensorboard, wandb, mlflow: a folder "
      "(default: tensorboard/, wandb/ or mlruns/ in the run folder)");
}

}  // namespace echelon::app
