#include "app/earlier_model.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
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
#include "text/tokenizer.h"
#include "text/tokenizer_digest.h"

namespace echelon::app {
namespace {

using Path = std::filesystem::path;

/// The checkpoint or Hugging Face folder that a new run starts from.
struct EarlierModel {
  Path folder;         ///< a step folder, or model.from; empty: there is none
  std::string config;  ///< its config.json; empty: there is none that can be read
};

/// Reads no tensors. Restoring reports damage.
EarlierModel earlier_model(const Recipe& recipe) {
  EarlierModel earlier{.folder = recipe.model.from, .config = {}};
  try {
    if (!earlier.folder.empty()) {
      earlier.config = families::config_of(earlier.folder);
      return earlier;
    }
    earlier.folder = checkpoint::newest_commit(recipe.checkpoint.init_from);
    earlier.config = checkpoint::load_attachment(earlier.folder, "config.json");
    if (!read_foreign_json(earlier.config).value.is_object()) earlier.config.clear();
  } catch (const Error&) {
    earlier.config.clear();
  }
  return earlier;
}

std::vector<std::int32_t> ends_of(const EarlierModel& earlier) {
  if (earlier.config.empty()) return {};
  return end_ids_of(earlier.config, str("config.json of '", earlier.folder.string(), '\''));
}

/// The text of an id, without the spaces at its ends, which a sentencepiece model leaves out. Empty for a
/// special symbol, whose name a model may have changed.
std::string text_of(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string text = tokenizer.decode(std::span(&id, 1));
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

/// The model's tokenizer, if it is another file than the data's. Null too for one of a kind that is not read.
std::unique_ptr<const Tokenizer> other_tokenizer(const EarlierModel& earlier, const std::string& ours) {
  try {
    const Path file = find_tokenizer(earlier.folder);
    if (file.empty() || tokenizer_digest(file) == tokenizer_digest(ours)) return nullptr;
    return Tokenizer::load(file);
  } catch (const Error&) {
    return nullptr;
  }
}

/// Throws Error(kData) if the data's ids are those of another vocabulary than the model's; a few may be
/// tokens that a user has renamed. `weights` is the model's name for the message.
void require_same_ids(const Recipe& recipe, const EarlierModel& earlier, const std::string& weights) {
  const std::string path = tokenizer_path(recipe.data);
  if (path.empty() || earlier.folder.empty() || recipe.checkpoint.init_partial) return;
  const auto theirs = other_tokenizer(earlier, path);
  if (!theirs) return;
  const auto ours = Tokenizer::load(path);
  std::int32_t compared = 0;
  std::vector<std::int32_t> other;
  for (std::int32_t id = 0; id < std::min(ours->vocab_size(), theirs->vocab_size()); ++id) {
    const std::string here = text_of(*ours, id);
    const std::string there = text_of(*theirs, id);
    if (here.empty() || there.empty()) continue;
    ++compared;
    if (here != there) other.push_back(id);
  }
  if (std::ssize(other) * 10 <= compared) return;
  throw Error(Code::kData, "the data with tokenizer '", path, "' are not for the model of ", weights, ": ",
              other.size(), " of ", compared,
              " ids stand for another text than in the model's tokenizer, such as ", other.back(), " for '",
              printable(text_of(*ours, other.back())), "', there for '",
              printable(text_of(*theirs, other.back())), "': prepare the data again with --tokenizer '",
              earlier.folder.string(), '\'');
}

}  // namespace

std::vector<Path> commits_of(const Recipe& recipe) {
  std::multimap<std::int64_t, Path, std::greater<>> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(Path(recipe.run.dir) / "checkpoints", ignored), end;
       !ignored && entry != end; entry.increment(ignored)) {
    const auto name = checkpoint::parse_step_folder(entry->path().filename().string());
    if (name && checkpoint::entry_exists(entry->path() / checkpoint::kCommitFile))
      found.emplace(name->step, entry->path());
  }
  return mapped(found, [](const auto& each) { return each.second; });
}

void require_same_text(const Recipe& recipe) {
  const bool of_folder = !recipe.model.from.empty();
  const std::string& from = of_folder ? recipe.model.from : recipe.checkpoint.init_from;
  if (from.empty() || takes_images(recipe.model.kind) || is_synthetic(recipe.data.kind) ||
      !commits_of(recipe).empty())
    return;
  const std::string weights = str('\'', from, of_folder ? "' (model.from)" : "' (checkpoint.init_from)");
  const EarlierModel earlier = earlier_model(recipe);
  require_same_ids(recipe, earlier, weights);
  // Conversations end with turns, which `prepare` has looked at.
  if (gives_chats(recipe.data.kind) || recipe.checkpoint.init_partial) return;
  const std::vector<std::int32_t> ends = ends_of(earlier);
  if (ends.empty()) return;
  const auto tokenizer = load_tokenizer(recipe.data);
  if (!tokenizer || tokenizer->eos_id() < 0) return;
  if (std::ranges::find(ends, tokenizer->eos_id()) != ends.end()) return;
  const auto named = [&](std::int32_t id) { return str(id, " (", printable(tokenizer->name_of(id)), ')'); };
  throw Error(Code::kData, "the data with tokenizer '", tokenizer_path(recipe.data),
              "' end documents with id ", named(tokenizer->eos_id()), ", but the model of ", weights,
              " ends text with ", named(ends.front()), ": prepare the data again with --tokenizer '",
              earlier.folder.string(), "'; if the model shall end text in another way, set eos_token_id in ",
              of_folder ? "its config.json and generation_config.json"
                        : "the files that it was imported from, and import it again");
}

}  // namespace echelon::app
