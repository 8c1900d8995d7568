#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/engine/engine.h"
#include "app/engine/inference/infer.h"
#include "app/engine/inference/model_source.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/progress_bar.h"
#include "comm/agree.h"
#include "model/model.h"
#include "train/eval/task_scores.h"

namespace echelon::app {
namespace {

/// Everything that a task needs beside the weights.
struct Questions {
  TextOptions text;
  std::vector<data::EncodedTask> tasks;
};

Questions questions_of(const EvaluateRequest& request, const ModelOptions& model, const ModelSource& source) {
  if (!is_decoder_only(model.kind)) {
    throw Error(Code::kUsage, "the model's kind is ", word_of(model.kind),
                "; expected a decoder-only language model, which can answer tasks");
  }
  Language language = source.language({});
  Questions questions{.text = {std::move(language.tokenizer), std::move(language.ends)}};
  const data::ModelLimits limits{longest_sequence(model), model.vocab_size};
  questions.tasks = data::encode_tasks(request.tasks, *questions.text.tokenizer, limits);
  return questions;
}

void print(const TaskResult& result) {
  std::vector<std::string> scores = mapped(
      result.scores, [](const auto& score) { return str(score.first, ' ', rounded(score.second, 4)); });
  scores.front() += str(" +- ", rounded(result.standard_error(), 4));
  std::cout << result.name << ": " << join(scores, ", ") << " (" << result.items << " items)" << std::endl;
}

nlohmann::ordered_json json_of(const TaskResult& result) {
  nlohmann::ordered_json json{{"kind", word_of(result.kind)}, {"items", result.items}};
  for (const auto& [name, score] : result.scores) json[name] = score;
  json[result.scores.front().first + "_stderr"] = result.standard_error();
  return json;
}

TaskResult score(ShardedModel& model, const data::EncodedTask& task, const TextOptions& text,
                 Communicator& comm) {
  const std::uint64_t items = task.task.items.size();
  ProgressBar bar(task.task.name, "questions");
  const TaskPasses passes{
      .on_pass = [&](std::uint64_t done, std::uint64_t all) { bar.show(items * done / all, items); }};
  return score_task(model, task, text, passes, comm, nullptr).value();
}

void evaluate(const EvaluateRequest& request, const InferencePlace& place) {
  std::unique_ptr<const ModelSource> source = open_source(request.checkpoint, request.base, place.comm);
  std::unique_ptr<Model> model;
  Questions questions;
  agree(place.comm, "recipe, tokenizer and tasks", [&] {
    const Recipe recipe = source->recipe();
    questions = questions_of(request, recipe.model, *source);
    model = build_model(recipe.model, at::kFloat, place.device, recipe.lora);
  });
  const auto sharded = source->load(std::move(model), place);
  source.reset();  // so that a run may remove the checkpoint
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const data::EncodedTask& task : questions.tasks) {
    const TaskResult result = score(*sharded, task, questions.text, place.comm);
    if (place.comm.rank() != 0) continue;
    if (!request.json) print(result);
    all[result.name] = json_of(result);
  }
  if (request.json && place.comm.rank() == 0)
    std::cout << json_text(nlohmann::ordered_json{{"tasks", std::move(all)}}) << std::endl;
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_evaluate(const echelon::app::EvaluateRequest& request) {
  return echelon::app::infer(
      request, [&](const echelon::InferencePlace& place) { echelon::app::evaluate(request, place); });
}
