#include "text/sentencepiece/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <exception>
#include <new>

#include "base/error.h"
#include "text/bpe/word_cache.h"
#include "text/sentencepiece/sentencepiece_traits.h"
#include "text/tokenizer_digest.h"

namespace echelon::data {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The library's table builder throws, for example at a symbol without characters.
bool loads(sentencepiece::SentencePieceProcessor& processor, std::string_view model_bytes) {
  try {
    return processor.LoadFromSerializedProto(model_bytes).ok();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return false;
  }
}

/// Whether train_tokenizer() made the model: where its symbols stand.
bool is_trained_here(const SentencepieceTraits& traits) {
  constexpr std::size_t kNewline = 3;
  constexpr std::size_t kTab = 4;
  const auto is_symbol = [&](std::size_t id, std::string_view text) {
    return traits.pieces[id].type == SentencepiecePiece::Type::kUserDefined && traits.pieces[id].text == text;
  };
  return traits.pieces.size() > kTab && is_symbol(kNewline, "\n") && is_symbol(kTab, "\t");
}

/// Encodes like the library, many times faster on text whose words repeat.
class SentencepieceEncoder final : public TextEncoder {
 public:
  explicit SentencepieceEncoder(const SentencepieceTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    if (!tokenizer_.cuts(text)) return tokenizer_.append(text, ids);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = tokenizer_.word_end(text, begin);
      const std::string_view word = text.substr(begin, end - begin);
      begin = end;
      words_.append(word, ids, [&] { tokenizer_.append(word, ids); });
    }
  }

 private:
  const SentencepieceTokenizer& tokenizer_;
  WordCache words_;
};

}  // namespace

struct SentencepieceTokenizer::Impl {
  sentencepiece::SentencePieceProcessor processor;
  bool verbatim = false;  // text goes in as it is, piece by piece
  bool trained_here = false;
  // Ids of the bytes of kSpaceSign, which would come back as a space; for models trained here.
  std::array<std::int32_t, 3> space_sign_bytes{};
  // joined[a * 256 + b]: some piece holds byte a followed by byte b. Merging never joins what no piece holds,
  // so between all other pairs of bytes a text can be cut without changing its ids.
  std::bitset<65536> joined;

  void note_joined(std::string_view piece) {
    std::string text;
    for (std::size_t at = 0; at < piece.size();) {
      const bool space = piece.substr(at, kSpaceSign.size()) == kSpaceSign;
      text += space ? ' ' : piece[at];
      at += space ? kSpaceSign.size() : 1;
    }
    for (std::size_t i = 1; i < text.size(); ++i) joined.set(byte_at(text, i - 1) * 256U + byte_at(text, i));
  }

  void append(std::string_view text, std::vector<std::int32_t>& ids) const {
    std::vector<int> part;
    const auto status = processor.Encode(text, &part);
    if (!status.ok()) throw Error(Code::kData, "cannot tokenize text: ", one_line(status.ToString()));
    ids.insert(ids.end(), part.begin(), part.end());
  }
};

SentencepieceTokenizer::SentencepieceTokenizer(std::string_view model_bytes, std::string_view name)
    : impl_(std::make_unique<Impl>()) {
  // Checked for a well-formed protocol buffer first, because the library writes to standard error
  // otherwise.
  // And for valid tables, which the library trusts.
  const auto traits = read_traits(model_bytes);
  auto& processor = impl_->processor;
  if (const std::string problem = traits ? unsafe_model_problem(*traits) : ""; !problem.empty()) {
    throw Error(Code::kData, "tokenizer '", name, "' cannot be used: ", problem,
                "; get the sentencepiece model again from its source");
  }
  if (!traits || !loads(processor, model_bytes) || processor.GetPieceSize() < 2) {
    throw Error(Code::kData, "tokenizer '", name,
                "' is neither a sentencepiece model nor a tokenizer.json: name a .model file of "
                "sentencepiece or a tokenizer.json, or let `echelon prepare --train-tokenizer` make one");
  }
  set_facts({.vocab_size = processor.GetPieceSize(),
             .bos_id = processor.bos_id(),
             .eos_id = processor.eos_id(),
             .digest = tokenizer_digest_of(model_bytes)});
  impl_->verbatim = traits->verbatim_bpe() && processor.IsByte(processor.PieceToId("<0x00>"));
  if (!impl_->verbatim) return;
  impl_->trained_here = is_trained_here(*traits);
  impl_->space_sign_bytes = {processor.PieceToId("<0xE2>"), processor.PieceToId("<0x96>"),
                             processor.PieceToId("<0x81>")};
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (processor.IsByte(id) || processor.IsControl(id) || processor.IsUnknown(id)) continue;
    impl_->note_joined(processor.IdToPiece(id));
  }
}

SentencepieceTokenizer::~SentencepieceTokenizer() = default;

std::unique_ptr<TextEncoder> SentencepieceTokenizer::make_encoder() const {
  return std::make_unique<SentencepieceEncoder>(*this);
}

void SentencepieceTokenizer::append(std::string_view text, std::vector<std::int32_t>& ids) const {
  while (impl_->trained_here) {
    const std::size_t sign = text.find(kSpaceSign);
    if (sign == std::string_view::npos) break;
    impl_->append(text.substr(0, sign), ids);
    ids.insert(ids.end(), impl_->space_sign_bytes.begin(), impl_->space_sign_bytes.end());
    text.remove_prefix(sign + kSpaceSign.size());
  }
  impl_->append(text, ids);
}

std::string SentencepieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw Error(Code::kData, "cannot decode token id ", id, ": the tokenizer has ids 0 to ",
                  vocab_size() - 1);
    }
  }
  std::string text;
  const auto status = impl_->processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  if (!status.ok()) throw Error(Code::kData, "cannot decode tokens: ", one_line(status.ToString()));
  return text;
}

std::string SentencepieceTokenizer::name_of(std::int32_t id) const {
  return id >= 0 && id < vocab_size() ? impl_->processor.IdToPiece(id) : "";
}

bool SentencepieceTokenizer::cuts(std::string_view text) const {
  return impl_->verbatim && (impl_->trained_here || text.find(kSpaceSign) == std::string_view::npos);
}

std::size_t SentencepieceTokenizer::word_end(std::string_view text, std::size_t begin) const {
  std::size_t end = begin + 1;
  for (; end < text.size(); ++end) {
    const unsigned left = byte_at(text, end - 1);
    const unsigned right = byte_at(text, end);
    const bool inside_character = (right & 0xC0U) == 0x80;
    if (!inside_character && !impl_->joined[left * 256 + right]) break;
  }
  return end;
}

}  // namespace echelon::data
