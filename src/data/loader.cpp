#include "data/loader.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "data/image_loader.h"
#include "data/token_loader.h"
#include "data/tokenizer_digest.h"

namespace echelon {
namespace {

void check_sizes(const DataOptions& options, std::int64_t vocab_size) {
  if (options.seq_len < 1 || options.seq_len > (std::int64_t{1} << 30)) {
    throw Error(Code::kUsage, str("data.seq_len is ", options.seq_len, ", expected 1 to 2^30"));
  }
  if (vocab_size < 2 || vocab_size > (std::int64_t{1} << 31)) {
    throw Error(Code::kUsage, str("model.vocab_size is ", vocab_size, ", expected 2 to 2^31"));
  }
}

/// Opens `path` and proves that it fits the model and the tokenizer of `options`.
TokenFile open_matching(const std::string& path, const DataOptions& options, std::int64_t vocab_size) {
  TokenFile file(path);
  const TokenFileHeader& header = file.header();
  if (header.vocab_size > static_cast<std::uint64_t>(vocab_size)) {
    throw Error(Code::kData, str("token file '", path, "' has ids up to ", header.max_token,
                                 " of a vocabulary of ", header.vocab_size, ", but model.vocab_size is ",
                                 vocab_size, ": set model.vocab_size to ", header.vocab_size, " or more"));
  }
  const std::string tokenizer = tokenizer_path(options);
  if (!tokenizer.empty() && header.tokenizer_digest != 0 &&
      tokenizer_digest(tokenizer) != header.tokenizer_digest) {
    throw Error(Code::kData, str("token file '", path, "' was made with another tokenizer than '", tokenizer,
                                 "': name the right one in data.tokenizer or prepare the data again"));
  }
  return file;
}

bool gives_images(const DataOptions& options) {
  return options.kind == "image_folder" || options.kind == "idx" || options.kind == "synthetic_images";
}

}  // namespace

std::string tokenizer_path(const DataOptions& options) {
  if (!options.tokenizer.empty() || options.kind == "synthetic_tokens" || gives_images(options))
    return options.tokenizer;
  return find_tokenizer(std::filesystem::path(options.path).parent_path()).string();
}

std::unique_ptr<Loader> make_loader(const DataOptions& options, const ModelInput& input, std::uint64_t seed) {
  if (gives_images(options)) return make_image_loader(options, input.images, seed);
  const std::int64_t vocab_size = input.vocab_size;
  check_sizes(options, vocab_size);
  if (options.kind == "synthetic_tokens") {
    return std::make_unique<SyntheticLoader>(options.seq_len, vocab_size, seed);
  }
  if (options.kind != "tokens") {
    throw Error(Code::kUsage, str("data.kind is '", options.kind, "', expected tokens or synthetic_tokens"));
  }
  if (options.path.empty()) {
    throw Error(Code::kData, "data.path is empty: name a token file made by `echelon prepare`");
  }
  const auto shuffle = options.shuffle ? std::optional(seed) : std::nullopt;
  return std::make_unique<TokenLoader>(open_matching(options.path, options, vocab_size), options.seq_len,
                                       shuffle);
}

std::unique_ptr<Loader> make_validation_loader(const DataOptions& options, const ModelInput& input) {
  if (options.validation.path.empty()) return nullptr;
  if (gives_images(options)) return make_image_validation_loader(options, input.images);
  check_sizes(options, input.vocab_size);
  return std::make_unique<TokenLoader>(open_matching(options.validation.path, options, input.vocab_size),
                                       options.seq_len, std::nullopt);
}

}  // namespace echelon
