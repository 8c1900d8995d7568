#include "data/prepare/mixture.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "data/prepare/corpus.h"
#include "data/prepare/prepare_manifest.h"
#include "data/prepare/sources.h"
#include "data/prepare/text_format.h"

namespace echelon::data {
namespace {

/// "web=texts" -> "web", "texts". The second is empty without a '='.
std::pair<std::string, std::string> split(const std::string& word) {
  const std::size_t at = std::min(word.find('='), word.size());
  return {word.substr(0, at), word.substr(std::min(at + 1, word.size()))};
}

/// A name is a folder's and, in a recipe, that of a validation source.
void check_name(const std::string& name, const std::string& word) {
  constexpr const char* kCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  if (name.find_first_not_of(kCharacters) == std::string::npos && !name.starts_with('.') &&
      !name.starts_with('-') && !name.empty())
    return;
  throw Error(Code::kUsage,
              str("source '", word, "': with --weight it is NAME=PATH, such as web=texts, the name ",
                  "of letters, digits, '_', '-' and '.'"));
}

double weight_of(const std::string& word) {
  double weight = 0;
  // Those of data.mixture, which rounds them to millionths.
  if (read_number(split(word).second, weight).empty() && weight >= 1e-6 && weight <= 1e6) return weight;
  throw Error(Code::kUsage,
              str("--weight ", word, ": expected NAME=NUMBER, a number from 0.000001 to 1000000"));
}

}  // namespace

std::vector<MixturePart> mixture_parts(const PrepareOptions& options,
                                       const std::vector<std::string>& weights) {
  if (options.preferences())
    throw Error(Code::kUsage, "--weight: data.mixture takes no preferences; prepare them as one source");
  std::vector<MixturePart> parts;
  const auto find = [&](const std::string& name) {
    return std::find_if(parts.begin(), parts.end(),
                        [&](const MixturePart& part) { return part.name == name; });
  };
  for (const std::string& word : options.sources) {
    const auto [name, path] = split(word);
    check_name(path.empty() ? "" : name, word);
    if (find(name) != parts.end())
      throw Error(Code::kUsage, str("two sources are called ", name, ": give each a name of its own"));
    MixturePart part{.name = name, .options = options};
    part.options.sources = {path};
    part.options.output = (std::filesystem::path(options.output) / name).string();
    parts.push_back(std::move(part));
  }
  for (const std::string& word : weights) {
    const auto part = find(split(word).first);
    const double weight = weight_of(word);
    if (part == parts.end()) throw Error(Code::kUsage, str("--weight ", word, ": no source has this name"));
    if (std::exchange(part->weight, weight) != 0)
      throw Error(Code::kUsage, str("--weight ", word, ": ", part->name, " has another weight already"));
  }
  for (const MixturePart& part : parts)
    if (part.weight == 0)
      throw Error(Code::kUsage,
                  str("source ", part.name, " has no weight: add --weight ", part.name, "=NUMBER"));
  return parts;
}

void prepare_mixture_tokenizer(const PrepareOptions& options, std::vector<MixturePart>& parts,
                               const ProgressCallback& progress) {
  std::vector<std::vector<SourceFile>> files;
  for (const MixturePart& part : parts) {
    check_options(part.options);
    files.push_back(list_sources(part.options).files);
  }
  make_output_folder(options);
  fs::remove_drafts(options.output);  // of commands that were killed
  if (!options.tokenizer.empty()) return;

  double total = 0;
  for (const MixturePart& part : parts) total += part.weight;
  nlohmann::ordered_json identity;
  std::vector<PrepareOptions> samples;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PrepareOptions& sample = samples.emplace_back(settle_format(parts[i].options, files[i]));
    identity[parts[i].name] = PrepareManifest(sample, files[i], nullptr).identity();
    identity[parts[i].name]["weight"] = parts[i].weight;
    sample.train_bytes =
        static_cast<std::uint64_t>(parts[i].weight / total * static_cast<double>(options.train_bytes));
  }
  const std::filesystem::path file = std::filesystem::path(options.output) / "tokenizer.model";
  const PrepareManifest manifest(options, std::move(identity));
  if (std::error_code none; !manifest.announced() || !std::filesystem::exists(file, none)) {
    manifest.check_replaceable();
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<std::string> more = sample_lines(files[i], samples[i], progress);
      std::move(more.begin(), more.end(), std::back_inserter(lines));
    }
    const std::string model = train_on_sample(lines, options, progress);
    // In this order, so that a kill never leaves the tokenizer of another mixture beside the manifest of this
    // one.
    (void)fs::disk().unlink(file.c_str());
    manifest.announce();
    fs::publish_file(file, model, Code::kData);
  }
  for (MixturePart& part : parts) {
    part.options.tokenizer = file.string();
    part.options.train_vocab_size = 0;
  }
}

std::string mixture_recipe(const std::vector<MixturePart>& parts, const std::vector<PrepareReport>& reports) {
  std::string text = "# The data of `echelon prepare`; a recipe takes them by `include`.\ndata:\n";
  const PrepareOptions& options = parts.front().options;
  if (options.pairs() || options.chats()) text += str("  kind: ", options.chats() ? "chat" : "pairs", "\n");
  const auto path_of = [](const MixturePart& part, const char* name) {
    return json_text(nlohmann::json((std::filesystem::path(part.options.output) / name).string()), -1);
  };
  text += "  mixture:\n";
  for (const MixturePart& part : parts)
    text += str("    ", path_of(part, "train.tok"), ": ", nlohmann::json(part.weight).dump(), "\n");
  std::string validation;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (reports[i].valid.tokens > 0)
      validation += str("      ", parts[i].name, ": ", path_of(parts[i], "valid.tok"), "\n");
  return text + (validation.empty() ? "" : "  validation:\n    sources:\n" + validation);
}

}  // namespace echelon::data
