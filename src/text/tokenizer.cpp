#include "text/tokenizer.h"

#include <algorithm>

#include "text/bpe/bpe_tokenizer.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/tokenizer_digest.h"

namespace echelon {

std::unique_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  return from_bytes(read_tokenizer_model(path), path.string());
}

std::unique_ptr<const Tokenizer> Tokenizer::from_bytes(std::string_view model_bytes, std::string_view name) {
  if (tokenizer_file_name(model_bytes) == "tokenizer.json") {
    return std::make_unique<data::BpeTokenizer>(model_bytes, name);
  }
  return std::make_unique<data::SentencepieceTokenizer>(model_bytes, name);
}

std::string Tokenizer::decode_any(std::span<const std::int32_t> ids) const {
  const auto is_known = [&](std::int32_t id) { return id >= 0 && id < vocab_size(); };
  std::string text;
  while (true) {
    const auto known = static_cast<std::size_t>(std::ranges::find_if_not(ids, is_known) - ids.begin());
    if (known > 0) text += decode(ids.first(known));
    if (known == ids.size()) return text;
    text += "\xEF\xBF\xBD";
    ids = ids.subspan(known + 1);
  }
}

std::string Tokenizer::piece_of(std::int32_t id) const {
  const std::string text = decode(std::span(&id, 1));
  return text.empty() ? name_of(id) : text;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return !name_of(id).empty() && decode(std::span(&id, 1)).empty();
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  make_encoder()->encode(text, ids);
  return ids;
}

}  // namespace echelon
