#include "metrics/mlflow_run.h"

#include <algorithm>
#include <cctype>

#include "base/checksum/crc32c.h"
#include "base/files/fs.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon::metrics {
namespace {

constexpr std::size_t kMetricBytes = std::size_t{1} << 16;

std::int64_t milliseconds(double time_s) {
  return static_cast<std::int64_t>(time_s * 1e3);
}

/// MLflow's rule: letters, digits and "_-. :/", and a path that stays where it is.
bool is_name(const std::string& name) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-. :/").find(c) != std::string_view::npos;
  };
  if (name.empty() || !std::ranges::all_of(name, allowed)) return false;
  const std::filesystem::path path(name);
  return path.is_relative() && path.lexically_normal() == path && *path.begin() != "..";
}

/// A text as YAML reads it.
std::string quoted(const std::string& text) {
  return str('\'', replace_all(text, "'", "''"), '\'');
}

/// The number of an experiment is made of its name, so that all exports find the same.
std::string experiment_id(const std::string& name) {
  return std::to_string(100'000'000'000'000'000 + std::uint64_t{crc32c(name)});
}

std::string uri(const std::filesystem::path& folder) {
  return "file://" + std::filesystem::absolute(folder).lexically_normal().string();
}

/// A metric is a file, so that none may have the name of another one's folder.
std::string file_name(const std::string& tag) {
  constexpr std::string_view kOfSources = "validation_loss/";
  return tag.starts_with(kOfSources) ? str("validation_loss_of/", tag.substr(kOfSources.size())) : tag;
}

}  // namespace

MlflowRun::MlflowRun(const std::filesystem::path& folder, TrackedRun run, double began_s)
    : run_(std::move(run)),
      experiment_(made(folder / experiment_id(run_.project))),
      folder_(experiment_ / (run_.id + run_.id)),  // MLflow's have 32 digits
      draft_(made(fs::draft_name(folder_))),
      began_s_(began_s),
      last_s_(began_s) {}

MlflowRun::~MlflowRun() {
  metrics_.clear();
  try {
    fs::remove_tree(draft_, Code::kEnvironment);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the draft stays
  }
}

MlflowRun::Metric& MlflowRun::metric(const std::string& name) {
  const auto found = metrics_.find(name);
  if (found != metrics_.end()) return found->second;
  const std::filesystem::path file = draft_ / "metrics" / name;
  fs::make_directories(file.parent_path(), Code::kEnvironment);
  return metrics_.try_emplace(name, file).first->second;
}

void MlflowRun::Metric::flush() {
  file.append(waiting);
  waiting.clear();
}

void MlflowRun::append(const Line& line) {
  last_s_ = std::max(last_s_, line.time_s);
  for (const Value& value : line.values) {
    if (value.is_when()) continue;
    if (!is_name(value.tag)) {
      ++left_out_;
      continue;
    }
    Metric& of_value = metric(file_name(value.tag));
    of_value.waiting += str(milliseconds(last_s_), ' ', number_text(value.value), ' ', line.step, '\n');
    if (of_value.waiting.size() >= kMetricBytes) of_value.flush();
  }
}

void MlflowRun::write(const std::filesystem::path& file, const std::string& text) const {
  fs::make_directories(file.parent_path(), Code::kEnvironment);
  fs::publish_file(file, text, Code::kEnvironment);
}

std::filesystem::path MlflowRun::finish() {
  for (auto& [name, of_name] : metrics_) {
    of_name.flush();
    of_name.file.close();
    of_name.file.keep();
  }
  metrics_.clear();
  for (const char* needed : {"artifacts", "metrics", "params", "tags"})  // else MLflow finds no run
    fs::make_directories(draft_ / needed, Code::kEnvironment);
  for (const TrackedRun::Parameter& parameter : run_.parameters) {
    if (is_name(parameter.name)) write(draft_ / "params" / parameter.name, parameter.json);
  }
  write(draft_ / "tags" / "mlflow.runName", run_.name);
  constexpr int kFinished = 3;
  constexpr int kLocal = 4;
  write(draft_ / "meta.yaml",
        str("artifact_uri: ", quoted(uri(folder_ / "artifacts")), "\nend_time: ", milliseconds(last_s_),
            "\nentry_point_name: ''\nexperiment_id: '", experiment_.filename().string(),
            "'\nlifecycle_stage: active\nrun_id: ", quoted(folder_.filename().string()),
            "\nrun_name: ", quoted(run_.name), "\nrun_uuid: ", quoted(folder_.filename().string()),
            "\nsource_name: ''\nsource_type: ", kLocal, "\nsource_version: ''\nstart_time: ",
            milliseconds(began_s_), "\nstatus: ", kFinished, "\ntags: []\nuser_id: echelon\n"));
  write(experiment_ / "meta.yaml",
        str("artifact_location: ", quoted(uri(experiment_)), "\ncreation_time: ", milliseconds(began_s_),
            "\nexperiment_id: '", experiment_.filename().string(), "'\nlast_update_time: ",
            milliseconds(last_s_), "\nlifecycle_stage: active\nname: ", quoted(run_.project), '\n'));
  fs::remove_tree(folder_, Code::kEnvironment);
  fs::rename(draft_, folder_, Code::kEnvironment);
  if (left_out_ > 0)
    log::warn(str(left_out_, " values have names that MLflow does not allow, and were left out"));
  return folder_;
}

}  // namespace echelon::metrics
