#include "app/prove/trial_run.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/foreign_json.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/str.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/read/reader.h"
#include "families/convert.h"

namespace echelon::app {
namespace {

using Path = std::filesystem::path;

constexpr double kDeadlineS = 300;  // of a run, which takes seconds
constexpr std::uint64_t kMostMetrics = std::uint64_t{16} << 20;

std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) last = line;
  }
  return last;
}

void train(const Trial& trial) {
  const Path folder = trial.recipe.run.dir;
  const Path recipe = folder.string() + ".yaml";
  fs::replace_file(recipe, to_yaml(trial.recipe), Code::kEnvironment);
  const std::string program = own_program().string();
  const ProgramRun run = run_program(
      {program, "train", recipe.string(), "--ranks", std::to_string(trial.ranks), "--quiet"}, kDeadlineS);
  if (run.good()) return;
  const bool known =
      run.status == static_cast<int>(Code::kInternal) ||
      (run.status >= static_cast<int>(Code::kUsage) && run.status <= static_cast<int>(Code::kPeer));
  throw Error(known ? static_cast<Code>(run.status) : Code::kTraining,
              str("the run '", trial.name, "' of ", recipe.string(),
                  " failed: ", run.err.empty() ? run.trouble("echelon train") : last_line(run.err)));
}

void read_metrics(const Trial& trial, Left& left) {
  const Path path = Path(trial.recipe.run.dir) / "metrics.jsonl";
  std::map<std::int64_t, nlohmann::json> by_step;
  for (const std::string& line : split(fs::read_file(path, kMostMetrics, Code::kTraining), '\n')) {
    nlohmann::json values = parse_foreign_json(line, path.string(), Code::kTraining);
    const std::int64_t step = values.at("step").get<std::int64_t>();
    by_step[step] = std::move(values);
  }
  for (std::int64_t step = 1; step <= trial.recipe.train.steps; ++step) {
    const auto found = by_step.find(step);
    if (found == by_step.end())
      throw Error(Code::kTraining, "the run '", trial.name, "' left no line for step ", step, " in ",
                  path.string());
    const auto number = [&](const char* key) {
      const auto value = found->second.find(key);
      return value != found->second.end() && value->is_number() ? value->get<double>() : std::nan("");
    };
    left.loss.push_back(number("loss"));
    left.grad_norm.push_back(number("grad_norm"));
    left.lr.push_back(number("lr"));
    left.loss_scale.push_back(number("loss_scale"));
  }
}

std::vector<float> values_of(const checkpoint::Reader& reader, const checkpoint::TensorInfo& tensor) {
  const std::uint64_t count = checkpoint::element_count(tensor);
  std::vector<float> values(count);
  std::vector<std::byte> stored(count * size_of(tensor.dtype));
  reader.read(tensor.name, 0, count, stored);
  families::convert(stored, tensor.dtype, std::as_writable_bytes(std::span(values)), DType::kF32);
  return values;
}

void read_checkpoint(const Trial& trial, Left& left) {
  const checkpoint::Reader reader(trial.recipe.run.dir);
  if (reader.step() != trial.recipe.train.steps)
    throw Error(Code::kTraining, "the run '", trial.name, "' saved step ", reader.step(), "; expected ",
                trial.recipe.train.steps);
  const std::string momentum = "/momentum_buffer";
  for (const checkpoint::TensorInfo& tensor : reader.tensors()) {
    const std::string name = tensor.name.substr(tensor.name.find('/') + 1);
    if (tensor.name.starts_with("model/")) left.weights[name] = values_of(reader, tensor);
    if (tensor.name.starts_with("ema/")) left.averages[name] = values_of(reader, tensor);
    if (name.ends_with(momentum))
      left.moments[name.substr(0, name.size() - momentum.size())] = values_of(reader, tensor);
  }
}

}  // namespace

Left run_trial(const Trial& trial) {
  train(trial);
  Left left;
  read_metrics(trial, left);
  read_checkpoint(trial, left);
  return left;
}

void go_back(const Recipe& recipe, std::int64_t step) {
  for (const checkpoint::Found& found : checkpoint::list(Path(recipe.run.dir) / "checkpoints")) {
    if (found.step > step) fs::remove_tree(found.folder, Code::kCheckpoint);
  }
}

}  // namespace echelon::app
