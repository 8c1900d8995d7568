#include "data/prepare/mixture.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "data/prepare/corpus.h"
#include "data/prepare/partial_output.h"
#include "data/prepare/prepare_manifest.h"
#include "data/prepare/sources.h"
#include "data/prepare/text_format.h"
#include "text/tokenizer_digest.h"

namespace echelon::data {
namespace {

/// "web=texts" -> "web", "texts". The second is empty without a '='.
std::pair<std::string, std::string> split(const std::string& word) {
  const std::size_t at = std::min(word.find('='), word.size());
  return {word.substr(0, at), word.substr(std::min(at + 1, word.size()))};
}

/// A name is a folder's and, in a recipe, that of a validation source. No file of the mixture's folder is
/// called so.
void check_name(const std::string& name, const std::string& word) {
  constexpr const char* kCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  constexpr std::size_t kMost = 100;  // that a recipe takes
  if (name.find_first_not_of(kCharacters) == std::string::npos && !name.starts_with('-') && !name.empty() &&
      name.size() <= kMost)
    return;
  throw Error(Code::kUsage, "source '", word,
              "': with --weight it is NAME=PATH, such as web=texts, the name of at most ", kMost,
              " letters, digits, '_' and '-'");
}

constexpr const char* kDigest = "tokenizer_digest";  // as in the manifest of finished work
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

/// Returns whether `file` is the tokenizer that a command of the manifest's identity has trained.
bool is_announced(const PrepareManifest& manifest, const std::filesystem::path& file) {
  const nlohmann::json announced = manifest.announced();
  std::error_code none;
  return !announced.is_null() && std::filesystem::exists(file, none) &&
         announced.value(kDigest, nlohmann::json()) ==
             tokenizer_digest_of(fs::read_file(file, kMostBytes, Code::kData));
}

double weight_of(const std::string& word) {
  double weight = 0;
  // The range is that of data.mixture, which rounds weights to millionths.
  if (read_number(split(word).second, weight).empty() && weight >= 1e-6 && weight <= 1e6) return weight;
  throw Error(Code::kUsage, "--weight ", word, ": expected NAME=NUMBER, a number from 0.000001 to 1000000");
}

}  // namespace

std::vector<MixturePart> mixture_parts(const PrepareOptions& options,
                                       const std::vector<std::string>& weights) {
  if (options.preferences())
    throw Error(Code::kUsage, "--weight: data.mixture takes no preferences; prepare them as one source");
  std::vector<MixturePart> parts;
  const auto find = [&](const std::string& name) {
    return std::ranges::find(parts, name, &MixturePart::name);
  };
  for (const std::string& word : options.sources) {
    const auto [name, path] = split(word);
    check_name(path.empty() ? "" : name, word);
    if (find(name) != parts.end())
      throw Error(Code::kUsage, "two sources are called ", name, ": give each a name of its own");
    MixturePart part{.name = name, .options = options};
    part.options.sources = {path};
    part.options.output = (std::filesystem::path(options.output) / name).string();
    part.options.leave_out = options.output;
    parts.push_back(std::move(part));
  }
  for (const std::string& word : weights) {
    const auto part = find(split(word).first);
    const double weight = weight_of(word);
    if (part == parts.end()) throw Error(Code::kUsage, "--weight ", word, ": no source has this name");
    if (std::exchange(part->weight, weight) != 0)
      throw Error(Code::kUsage, "--weight ", word, ": ", part->name, " has another weight already");
  }
  for (const MixturePart& part : parts)
    if (part.weight == 0)
      throw Error(Code::kUsage, "source ", part.name, " has no weight: add --weight ", part.name, "=NUMBER");
  return parts;
}

std::shared_ptr<const void> begin_mixture(const PrepareOptions& options, std::vector<MixturePart>& parts,
                                          const ProgressCallback& progress) {
  std::vector<std::vector<SourceFile>> files;
  std::vector<PrepareOptions> samples;
  double total = 0;
  for (const MixturePart& part : parts) {
    check_options(part.options);
    files.push_back(list_sources(part.options).files);
    samples.push_back(settle_format(part.options, files.back()));
    total += part.weight;
  }
  make_output_folder(options);
  // It keeps no work: it is the lock.
  auto lock = std::make_shared<const PartialOutput>(options, nullptr, progress);
  fs::remove_drafts(options.output);  // of commands that were killed
  if (!options.tokenizer.empty()) return lock;

  nlohmann::ordered_json identity;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    identity[parts[i].name] = PrepareManifest(samples[i], files[i], nullptr).identity();
    identity[parts[i].name]["weight"] = parts[i].weight;
    samples[i].train_bytes =
        static_cast<std::uint64_t>(parts[i].weight / total * static_cast<double>(options.train_bytes));
  }
  const std::filesystem::path file = std::filesystem::path(options.output) / "tokenizer.model";
  const PrepareManifest manifest(options, std::move(identity));
  if (!is_announced(manifest, file)) {
    manifest.check_replaceable();
    TextSample all;
    for (std::size_t i = 0; i < parts.size(); ++i) all.add(sample_lines(files[i], samples[i], progress));
    const std::string model = train_on_sample(all, options, progress);
    manifest.announce({{kDigest, tokenizer_digest_of(model)}});
    fs::publish_file(file, model, Code::kData);
  }
  for (MixturePart& part : parts) {
    part.options.tokenizer = file.string();
    part.options.train_vocab_size = 0;
  }
  return lock;
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
      validation += str("      \"", parts[i].name, "\": ", path_of(parts[i], "valid.tok"), "\n");
  return text + (validation.empty() ? "" : "  validation:\n    sources:\n" + validation);
}

std::string publish_mixture(const PrepareOptions& options, const std::string& recipe) {
  const std::filesystem::path file = std::filesystem::path(options.output) / "mixture.yaml";
  if (std::error_code none; std::filesystem::exists(file, none)) {
    if (fs::read_file(file, kMostBytes, Code::kData) == recipe) return file.string();
    if (!options.force)
      throw Error(Code::kData, "'", file.string(), "' has another text than this command writes, such as ",
                  "changed weights: move it away, or replace it with --force");
  }
  fs::publish_file(file, recipe, Code::kData);
  return file.string();
}

}  // namespace echelon::data
