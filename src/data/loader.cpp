#include "data/loader.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/images/image_loader.h"
#include "data/prepared.h"
#include "data/tokens/chat_loader.h"
#include "data/tokens/document_loader.h"
#include "data/tokens/mixture_loader.h"
#include "data/tokens/pair_loader.h"
#include "data/tokens/token_loader.h"
#include "text/special_ids.h"
#include "text/tokenizer_digest.h"

namespace echelon {
namespace {

using data::first_file;

void check_sizes(const DataOptions& options, std::int64_t vocab_size) {
  if (options.seq_len < 1 || options.seq_len > (std::int64_t{1} << 30)) {
    throw Error(Code::kUsage, "data.seq_len is ", options.seq_len, ", expected 1 to 2^30");
  }
  if (options.target_len < 1 || options.target_len > (std::int64_t{1} << 30)) {
    throw Error(Code::kUsage, "data.target_len is ", options.target_len, ", expected 1 to 2^30");
  }
  if (vocab_size < 2 || vocab_size > (std::int64_t{1} << 31)) {
    throw Error(Code::kUsage, "model.vocab_size is ", vocab_size, ", expected 2 to 2^31");
  }
}

/// Opens `path` and checks that it fits the model and the tokenizer of `options`.
TokenFile open_matching(const std::string& path, const DataOptions& options, std::int64_t vocab_size) {
  TokenFile file(path);
  const TokenFileHeader& header = file.header();
  // A tokenizer may have more ids than the model where no text has them, as Gemma 3's sign for images.
  if (header.max_token >= static_cast<std::uint64_t>(vocab_size)) {
    throw Error(Code::kData, "token file '", path, "' has ids up to ", header.max_token,
                " of a vocabulary of ", header.vocab_size, ", but model.vocab_size is ", vocab_size,
                ": set model.vocab_size to ", header.vocab_size, " or more");
  }
  const std::string tokenizer = tokenizer_path(options);
  if (!tokenizer.empty() && header.tokenizer_digest != 0 &&
      tokenizer_digest(tokenizer) != header.tokenizer_digest) {
    throw Error(Code::kData, "token file '", path, "' was made with another tokenizer than '", tokenizer,
                "': name the right one in data.tokenizer or prepare the data again");
  }
  return file;
}

/// The id behind each document of `file`; -1: none.
std::int32_t document_end_of(const TokenFile& file) {
  if ((file.header().flags & kDocumentsEndWithEos) == 0) return -1;
  std::int64_t last = -1;
  file.read(file.document(0).end - 1, std::span(&last, 1));
  return static_cast<std::int32_t>(last);
}

/// A language model predicts the next token: a file whose documents have one token each has nothing to
/// predict.
void require_targets(const TokenFile& file, const DataOptions& options) {
  if (options.packing == Packing::kStream || file.document_count() < file.token_count()) return;
  throw Error(Code::kData, "token file '", file.path().string(), "' has nothing to predict: its ",
              file.document_count(), " documents have one token each, and data.packing is ",
              word_of(options.packing), ": prepare longer documents, or set data.packing: stream");
}

/// Returns the name of the documents of `file`, and the kind of data that reads them.
std::pair<const char*, DataKind> held_by(const TokenFile& file) {
  if (file.header().holds_pairs()) return {"pairs of texts", DataKind::kPairs};
  if (file.header().holds_preferences()) return {"pairs of answers", DataKind::kPreference};
  if (file.header().holds_chats()) return {"conversations", DataKind::kChat};
  return {"documents", DataKind::kTokens};
}

std::unique_ptr<Loader> open_file(const std::string& path, const DataOptions& options,
                                  std::int64_t vocab_size, std::optional<std::uint64_t> shuffle) {
  TokenFile file = open_matching(path, options, vocab_size);
  const auto [held, kind] = held_by(file);
  if (kind != options.kind) {
    throw Error(Code::kData, "token file '", path, "' holds ", held, ", but data.kind is ",
                word_of(options.kind), ": set data.kind: ", word_of(kind), ", or name another file");
  }
  if (kind == DataKind::kPairs)
    return std::make_unique<PairLoader>(std::move(file), options.seq_len, options.target_len, shuffle);
  if (gives_chats(kind)) {
    const std::int64_t leave_out = options.on_bad_record == BadRecord::kSkip ? options.max_bad_records : 0;
    return std::make_unique<ChatLoader>(std::move(file), options.seq_len, shuffle, leave_out);
  }
  require_targets(file, options);
  if (options.packing == Packing::kPad)
    return std::make_unique<DocumentLoader>(std::move(file), options.seq_len, shuffle);
  return std::make_unique<TokenLoader>(std::move(file), options.seq_len, shuffle,
                                       options.packing == Packing::kDocuments);
}

/// Weights in millionths, so that they are integers and shares are exact.
std::uint64_t share_of(const std::string& path, double weight) {
  constexpr double kUnit = 1e6;
  if (!(weight >= 1 / kUnit && weight <= kUnit)) {
    throw Error(Code::kUsage, "data.mixture: the weight of '", path, "' is ", weight,
                ", expected 0.000001 to 1000000");
  }
  return static_cast<std::uint64_t>(std::llround(weight * kUnit));
}

std::unique_ptr<Loader> open_mixture(const DataOptions& options, std::int64_t vocab_size,
                                     std::optional<std::uint64_t> shuffle) {
  std::vector<MixtureLoader::Source> sources;
  std::uint64_t digest = 0;
  std::int32_t end = -1;
  for (const auto& [path, weight] : options.mixture) {
    const std::uint64_t share = share_of(path, weight);
    sources.push_back({open_file(path, options, vocab_size, shuffle), share});
    const TokenFile file(path);
    const std::uint64_t own = file.header().tokenizer_digest;
    if (digest != 0 && own != 0 && own != digest) {
      throw Error(Code::kData, "data.mixture: '", path, "' was made with another tokenizer than '",
                  options.mixture.front().first, "': prepare all files with the same one (--tokenizer)");
    }
    digest = digest == 0 ? own : digest;
    const std::int32_t own_end = document_end_of(file);
    if (end >= 0 && own_end >= 0 && own_end != end) {
      throw Error(Code::kData, "data.mixture: documents of '", path, "' end with id ", own_end,
                  ", those of '", first_file(options), "' with ", end,
                  ": prepare all files with the tokenizer in the folder of the same model (--tokenizer)");
    }
    end = end < 0 ? own_end : end;
  }
  return std::make_unique<MixtureLoader>(std::move(sources), shuffle);
}

}  // namespace

SampleBatch Loader::read(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0) throw Error::internal("a read of ", count, " samples from sample ", first);
  SampleBatch batch{.samples = count, .first_sample = first};
  for (std::int64_t sample = first; sample < first + count; ++sample) append(sample, batch);
  return batch;
}

std::string tokenizer_path(const DataOptions& options) {
  if (!options.tokenizer.empty() || is_synthetic(options.kind) || gives_images(options.kind))
    return options.tokenizer;
  return find_tokenizer(std::filesystem::path(first_file(options)).parent_path()).string();
}

std::unique_ptr<const Tokenizer> load_tokenizer(const DataOptions& options) {
  const std::string path = tokenizer_path(options);
  if (path.empty()) return nullptr;
  auto tokenizer = Tokenizer::load(path);
  if (is_synthetic(options.kind) || gives_images(options.kind)) return tokenizer;
  return ending_with(std::move(tokenizer), document_end_of(TokenFile(first_file(options))));
}

std::unique_ptr<Loader> make_loader(const DataOptions& options, const ModelInput& input, std::uint64_t seed) {
  if (gives_images(options.kind)) return make_image_loader(options, input.images, seed, false);
  const std::int64_t vocab_size = input.vocab_size;
  check_sizes(options, vocab_size);
  if (options.kind == DataKind::kSyntheticTokens)
    return std::make_unique<SyntheticLoader>(options.seq_len, vocab_size, seed);
  if (options.kind == DataKind::kSyntheticPairs)
    return std::make_unique<SyntheticPairLoader>(
        PairSizes{options.seq_len, options.target_len, vocab_size, options.full_length}, seed);
  const auto shuffle = options.shuffle ? std::optional(seed) : std::nullopt;
  if (!options.mixture.empty()) return open_mixture(options, vocab_size, shuffle);
  if (options.path.empty()) {
    throw Error(Code::kData, "data.path is empty: name a token file made by `echelon prepare`");
  }
  return open_file(options.path, options, vocab_size, shuffle);
}

std::vector<ValidationSource> make_validation_sources(const DataOptions& options, const ModelInput& input,
                                                      std::uint64_t seed) {
  const ValidationDataOptions& named = options.validation;
  std::vector<ValidationSource> sources;
  const auto add = [&](const std::string& name, const std::string& path) {
    check_sizes(options, input.vocab_size);
    sources.push_back({name, open_file(path, options, input.vocab_size, std::nullopt)});
  };
  const bool one = !named.path.empty() || named.samples != 0;
  if (one && gives_images(options.kind)) {
    sources.push_back({"", make_image_loader(options, input.images, seed, true)});
  } else if (one) {
    add("", named.path);
  }
  for (const auto& [name, path] : named.sources) add(name, path);
  return sources;
}

}  // namespace echelon
