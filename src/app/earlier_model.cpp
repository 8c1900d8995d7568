#include "app/earlier_model.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "data/loader.h"
#include "families/model_weights.h"
#include "text/special_ids.h"

namespace echelon::app {
namespace {

using Path = std::filesystem::path;

/// Empty: there is none that can be read. Restoring reports damage.
std::string config_of(const Path& folder) {
  try {
    std::string config =
        checkpoint::load_attachment(folder, checkpoint::load_manifest(folder), "config.json");
    return read_foreign_json(config).value.is_object() ? config : "";
  } catch (const Error&) {
    return "";
  }
}

std::vector<std::int32_t> ends_of(const EarlierModel& earlier) {
  if (earlier.config.empty()) return {};
  return end_ids_of(earlier.config, str("config.json of '", earlier.folder.string(), '\''));
}

}  // namespace

std::vector<Path> commits_of(const Recipe& recipe) {
  std::vector<Path> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(Path(recipe.run.dir) / "checkpoints", ignored), end;
       !ignored && entry != end; entry.increment(ignored)) {
    const Path& folder = entry->path();
    if (checkpoint::parse_step_folder(folder.filename().string()) &&
        checkpoint::entry_exists(folder / checkpoint::kCommitFile))
      found.push_back(folder);
  }
  const auto step_of = [](const Path& folder) {
    return checkpoint::parse_step_folder(folder.filename().string()).value().step;
  };
  std::ranges::sort(found, [&](const Path& a, const Path& b) { return step_of(a) > step_of(b); });
  return found;
}

EarlierModel earlier_model(const Recipe& recipe) {
  for (const Path& step : commits_of(recipe)) {
    if (std::string config = config_of(step); !config.empty()) return {step, std::move(config), true};
  }
  try {
    if (const std::string& from = recipe.model.from; !from.empty()) return {from, families::config_of(from)};
    if (recipe.checkpoint.init_from.empty()) return {};
    const Path folder = checkpoint::newest_commit(recipe.checkpoint.init_from);
    return {folder, config_of(folder), false};
  } catch (const Error&) {
    return {};
  }
}

bool states_ends(const EarlierModel& earlier, const Recipe& recipe) {
  return (earlier.of_run || !recipe.checkpoint.init_partial) && !ends_of(earlier).empty();
}

void require_same_ends(const Recipe& recipe) {
  const bool of_folder = !recipe.model.from.empty();
  const std::string& from = of_folder ? recipe.model.from : recipe.checkpoint.init_from;
  // Conversations end with turns, which `prepare` has looked at.
  if (from.empty() || takes_images(recipe.model.kind) || is_synthetic(recipe.data.kind) ||
      gives_chats(recipe.data.kind) || !commits_of(recipe).empty())
    return;
  const EarlierModel earlier = earlier_model(recipe);
  if (!states_ends(earlier, recipe)) return;
  const auto tokenizer = load_tokenizer(recipe.data);
  if (!tokenizer || tokenizer->eos_id() < 0) return;
  const std::vector<std::int32_t> ends = ends_of(earlier);
  if (std::ranges::find(ends, tokenizer->eos_id()) != ends.end()) return;
  const auto named = [&](std::int32_t id) { return str(id, " (", printable(tokenizer->name_of(id)), ')'); };
  throw Error(Code::kData, "the data with tokenizer '", tokenizer_path(recipe.data),
              "' end documents with id ", named(tokenizer->eos_id()), ", but the model of '", from,
              of_folder ? "' (model.from" : "' (checkpoint.init_from", ") ends text with ",
              named(ends.front()), ": prepare the data again with --tokenizer '", earlier.folder.string(),
              "'; if the model shall end text in another way, set eos_token_id in ",
              of_folder ? "its config.json and generation_config.json"
                        : "the files that it was imported from, and import it again");
}

}  // namespace echelon::app
