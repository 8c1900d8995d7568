#include "app/early_checks.h"

#include <filesystem>
#include <system_error>

#include "app/earlier_model.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/resume.h"
#include "data/loader.h"
#include "data/tasks/scored_sequences.h"
#include "families/model_weights.h"
#include "recipe/compare.h"
#include "recipe/parse.h"

namespace echelon::app {
namespace {

/// Opening a folder of images lists all of it, so only a missing one is reported here.
bool opens_at_once(const DataOptions& data, const std::string& path) {
  std::error_code ignored;
  return !gives_images(data.kind) || !std::filesystem::exists(path, ignored);
}

void check_data(const Recipe& recipe) {
  const DataOptions& data = recipe.data;
  const auto seed = static_cast<std::uint64_t>(recipe.run.seed);
  if (opens_at_once(data, data.path)) (void)make_loader(data, recipe.model, seed);
  if (opens_at_once(data, data.validation.path)) (void)make_validation_sources(data, recipe.model, seed);
}

/// What ranks would find only after they are connected.
void check_tasks(const Recipe& recipe) {
  if (recipe.evaluation.tasks.empty()) return;
  const auto tokenizer = load_tokenizer(recipe.data);
  if (tokenizer == nullptr) return;  // the engine tells
  const data::ModelLimits limits{longest_sequence(recipe.model), recipe.model.vocab_size};
  (void)data::encode_tasks(recipe.evaluation, *tokenizer, limits);
}

/// The keys by which the model of a checkpoint is another one. Empty too where its recipe cannot be read: the
/// run takes an older checkpoint then, or compares tensors alone.
std::string differences(const std::filesystem::path& step, const Recipe& recipe) {
  constexpr const char* kRecipe = "recipe.yaml";
  try {
    const auto stored = recipe::parse_stored_recipe(kRecipe, checkpoint::load_attachment(step, kRecipe));
    return recipe::describe(recipe::of_base(recipe::changes(stored, recipe)));
  } catch (const Error&) {
    return "";
  }
}

void require_same_model(const std::filesystem::path& step, const Recipe& recipe) {
  if (recipe.checkpoint.init_partial) return;
  const std::string keys = differences(step, recipe);
  if (keys.empty()) return;
  throw Error(Code::kCheckpoint, "it is of a different model (checkpoint -> this recipe: ", keys,
              "); use the model it was made with, or set checkpoint.init_partial: true to take the tensors "
              "that fit");
}

/// Without what may be in the nodes' memory, which only the run can tell.
void check_checkpoints(const Recipe& recipe) {
  const CheckpointOptions& options = recipe.checkpoint;
  const std::filesystem::path folder = std::filesystem::path(recipe.run.dir) / "checkpoints";
  const bool any = !commits_of(recipe).empty();
  const bool perhaps = options.resume == Resume::kMust && options.memory_every_steps > 0;
  checkpoint::check_resume(options.resume, folder, any, perhaps);
  if (any) return;
  if (!recipe.model.from.empty()) (void)families::ModelWeights(recipe.model.from, "model.from");
  if (options.init_from.empty()) return;
  in_context(str("checkpoint.init_from '", options.init_from, "'"),
             [&] { require_same_model(checkpoint::newest_commit(options.init_from), recipe); });
}

}  // namespace

void check_early(const Recipe& recipe) {
  check_data(recipe);
  check_tasks(recipe);
  check_checkpoints(recipe);
  require_same_text(recipe);
}

doctor::Finding examine_initial_weights(const Recipe& recipe) {
  constexpr const char* kName = "initial_weights";
  const bool of_folder = !recipe.model.from.empty();
  const std::string& from = of_folder ? recipe.model.from : recipe.checkpoint.init_from;
  try {
    check_checkpoints(recipe);
    require_same_text(recipe);
  } catch (const Error& error) {
    return doctor::fault(kName, error.what(), "correct what the message names; docs/checkpoints.md helps");
  }
  return doctor::ok(
      kName, from.empty() ? "the recipe names neither model.from nor checkpoint.init_from"
                          : str("'", from, of_folder ? "' holds the model's weights" : "' is a checkpoint",
                                ", and ends text as the data do"));
}

}  // namespace echelon::app
