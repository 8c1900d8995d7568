#include "app/engine/checkpoint_review.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/names.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "optim/schedule.h"
#include "recipe/parse.h"
#include "train/epochs.h"

namespace echelon::app {
namespace {

using Path = std::filesystem::path;

constexpr const char* kRecipe = "recipe.yaml";
constexpr const char* kConfig = "config.json";
constexpr const char* kStart = "model_from.json";  ///< which weights of model.from a run started with

nlohmann::json start_of(const families::ModelWeights& weights) {
  return {{"from", weights.folder().string()}, {"fingerprint", weights.fingerprint()}};
}

/// Folders that may contain an intact copy of a file of `damaged`: the run's other committed checkpoints,
/// newest first, then the one it started from.
std::vector<Path> other_sources(const Path& damaged, const RunFolder& folder, const std::string& init_from) {
  std::vector<Path> sources;
  for (const checkpoint::Found& found : checkpoint::list(folder.checkpoints())) {
    if (found.committed && found.folder != damaged) sources.push_back(found.folder);
  }
  std::reverse(sources.begin(), sources.end());
  if (init_from.empty()) return sources;
  try {
    sources.push_back(checkpoint::newest_commit(init_from));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): init_from may be gone; the run no longer needs it
  }
  return sources;
}

/// The file from `source` if it matches the manifest of `damaged`; nothing if it differs or is missing.
std::optional<std::string> copy_in(const Path& source, const Path& damaged, const std::string& name) {
  try {
    const checkpoint::Manifest manifest = checkpoint::load_manifest(source);
    const auto theirs = manifest.attachments.find(name);
    const auto wanted = checkpoint::load_manifest(damaged).attachments.at(name);
    if (theirs == manifest.attachments.end() || theirs->second.bytes != wanted.bytes ||
        theirs->second.crc != wanted.crc)
      return std::nullopt;
    return checkpoint::load_attachment(source, manifest, name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A config.json; empty: there is none that can be read.
std::string config_in(const Path& checkpoint) {
  try {
    std::string config = checkpoint::load_attachment(checkpoint, kConfig);
    return read_foreign_json(config).value.is_object() ? config : "";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

Differences CheckpointReview::inspect(const checkpoint::Reader& reader) {
  files_ = made_;
  reference_.clear();
  config_.clear();
  changes_.clear();
  then_.reset();
  bool has_recipe = false;
  const std::vector<std::string> names = reader.attachments();
  const bool leaves_out = std::find(names.begin(), names.end(), checkpoint::kBaseFile) != names.end();
  for (const std::string& name : names) {
    std::string content;
    has_recipe = has_recipe || name == kRecipe;
    try {
      content = reader.attachment(name);
    } catch (const Error& e) {
      if (e.is_of_system()) throw;  // it may be whole
      make_good(reader, name, e.what());
      continue;
    }
    if (name == kRecipe) compare(reader, content);
    if (name == kStart && !recipe_.model.from.empty()) {
      if (!leaves_out) compare_start(content);  // else the base is read again, and compared itself
      files_.emplace(name, content);
    }
    if (is_reference(name)) reference_ = content;
    if (name == kConfig && read_foreign_json(content).value.is_object()) config_ = content;
    if (checkpoint::is_companion_file(name)) files_.emplace(name, std::move(content));
  }
  if (config_.empty()) config_ = other_config(reader.folder());
  if (leaves_out) compare_base();
  if (!has_recipe) {
    log::warn(
        str("checkpoint '", reader.folder().string(),
            "' has no recipe.yaml: only the names and shapes of its tensors were compared with this model"));
  }
  return {.model = recipe::describe(recipe::of_model(changes_)),
          .base = recipe::describe(recipe::of_base(changes_)),
          .data = recipe::describe(recipe::of_data(changes_))};
}

/// What the run started from states the same special ids as its checkpoints, in a config.json that need not
/// be the same otherwise.
std::string CheckpointReview::other_config(const Path& lost) const {
  const CheckpointOptions& options = recipe_.checkpoint;
  for (const Path& source : other_sources(lost, folder_, options.init_partial ? "" : options.init_from)) {
    if (std::string config = config_in(source); !config.empty()) return config;
  }
  try {
    return recipe_.model.from.empty() ? "" : families::config_of(recipe_.model.from);
  } catch (const Error&) {  // the folder may be gone; the run no longer needs it
    return "";
  }
}

void CheckpointReview::inherit(const families::ModelWeights& weights) {
  files_ = made_;
  files_.merge(families::companions_of(weights.folder()));
  files_[kStart] = start_of(weights).dump(2) + "\n";
  config_ = weights.config();
}

TextOptions CheckpointReview::settle_text(RunTexts texts, bool resumed, Communicator& comm) {
  std::vector<std::int64_t> ends;
  agree(comm, "special ids", [&] {
    if (comm.rank() == 0) ends = set_ids(texts, resumed);
  });
  // Rank 0 reads a tokenizer for the checkpoints, too: one that is kept takes tens of megabytes for nothing.
  if (!asks_for_texts(recipe_)) texts.tokenizer.reset();
  return {std::move(texts.tokenizer), broadcast_value(comm, ends, "ends of texts")};
}

std::vector<std::int64_t> CheckpointReview::set_ids(const RunTexts& texts, bool resumed) {
  if (takes_images(recipe_.model.kind)) return {};
  // A model that takes some of another's weights may be for other text.
  const bool other_text = !resumed && recipe_.checkpoint.init_partial && texts.tokenizer != nullptr;
  return set_special_ids(files_.at(kConfig), other_text ? "" : config_, texts);
}

/// A run of another kind has no use for it.
bool CheckpointReview::is_reference(const std::string& name) const {
  return name == kReferenceFile && recipe_.data.kind == DataKind::kPreference;
}

/// The run goes on from its own weights, whatever became of the folder.
void CheckpointReview::compare_start(const std::string& then) const {
  const std::string& folder = recipe_.model.from;
  if (!families::is_model_folder(folder)) return;
  try {
    const nlohmann::json start = read_foreign_json(then).value;
    const nlohmann::json now = start_of(families::ModelWeights(folder, "model.from"));
    if (!start.is_object() || start.value("fingerprint", nlohmann::json()) == now["fingerprint"]) return;
    log::warn(str("model.from '", folder,
                  "' holds other weights than those that this run started from; it goes on from its own "
                  "checkpoint"));
  } catch (const Error& error) {
    log::warn(str(error.what(), "; the run goes on from its own checkpoint"));
  }
}

/// The base is read from the checkpoint's folder as long as that is there.
void CheckpointReview::compare_base() const {
  const std::string& folder = recipe_.model.from;
  std::error_code ignored;
  if (!base_ || folder.empty() || !families::is_model_folder(folder) ||
      !std::filesystem::exists(base_->folder, ignored) ||
      std::filesystem::equivalent(folder, base_->folder, ignored))
    return;
  log::warn(str("model.from '", folder, "' is not read: the run goes on with the base of its checkpoint, '",
                base_->folder, "'; to train on another base, use another run.dir"));
}

void CheckpointReview::compare(const checkpoint::Reader& reader, const std::string& then) {
  try {
    then_ = recipe::parse_stored_recipe(kRecipe, then);
    changes_ = recipe::changes(*then_, recipe_);
  } catch (const Error& e) {
    log::warn(str("cannot tell what changed in the recipe since checkpoint '", reader.folder().string(),
                  "'; only the names and shapes of its tensors were compared with this model: ", e.what()));
  }
}

void CheckpointReview::tell_jump_of_rate(const TrainState& state, std::int64_t steps) const {
  constexpr double kNoticed = 0.1;
  const bool known = std::any_of(changes_.begin(), changes_.end(), [](const recipe::Change& change) {
    return change.key == "optim.lr" || change.key.starts_with("schedule.") ||
           change.key.starts_with("train.");
  });
  const std::int64_t step = state.step;
  if (!known || step < 1) return;
  const Epochs then(state.data.samples_per_epoch(), then_->train.global_batch_size,
                    {step, state.position.next_sample});
  const double before = learning_rate(then_->optim, then_->schedule, step,
                                      with_steps(then_->train, then).steps, then.passes(step - 1));
  const double after = learning_rate(recipe_.optim, recipe_.schedule, step + 1, steps, then.passes(step));
  if (std::fabs(after - before) <= kNoticed * before) return;
  log::info(str(std::scientific, std::setprecision(2), "the learning rate jumps from ", before, " at step ",
                step, " to ", after, "; the schedule is another one than the checkpoint's"));
}

void CheckpointReview::make_good(const checkpoint::Reader& reader, const std::string& name,
                                 const std::string& damage) {
  if (name == kRecipe) {
    return log::warn(str(
        damage,
        "; changes of the recipe since then are unknown, and the next checkpoint gets this run's recipe"));
  }
  if (made_.contains(name)) {
    return log::warn(str(damage, "; the next checkpoint gets a new one from ",
                         checkpoint::is_companion_file(name) ? "the data's tokenizer" : "this run's recipe"));
  }
  if (!checkpoint::is_companion_file(name) && !is_reference(name))
    return log::warn(str(damage, "; nothing needs it"));
  for (const Path& source : other_sources(reader.folder(), folder_, recipe_.checkpoint.init_from)) {
    if (auto content = copy_in(source, reader.folder(), name)) {
      (is_reference(name) ? reference_ : files_[name]) = std::move(*content);
      return log::warn(str(damage, "; the next checkpoint gets it from '", source.string(), "'"));
    }
  }
  throw Error(Code::kCheckpoint, damage,
              ", and neither the data, another checkpoint of the run nor checkpoint.init_from has it; "
              "restore the file from a backup, or move the folder away to continue without this checkpoint");
}

}  // namespace echelon::app
