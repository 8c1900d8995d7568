#include "text/sentencepiece/sentencepiece_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/foreign_text.h"
#include "base/str.h"
#include "text/base64.h"
#include "text/sentencepiece/normalizer_table.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/sentencepiece/sentencepiece_traits.h"

namespace echelon::data {
namespace {

using Json = nlohmann::json;
using Type = SentencepiecePiece::Type;

bool is_merged(const SentencepiecePiece& piece) {
  return piece.type == Type::kNormal;
}

/// Each way to make a piece of two others, the piece with the best score first: sentencepiece joins the
/// neighbors whose whole is best, `tokenizers` the pair that is listed first.
Json merges_of(const SentencepieceTraits& traits) {
  std::map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < traits.pieces.size(); ++id) {
    if (is_merged(traits.pieces[id])) ids.emplace(traits.pieces[id].text, id);
  }
  std::vector<std::tuple<float, std::size_t, std::size_t>> merges;  // minus the score, both parts
  for (const SentencepiecePiece& piece : traits.pieces) {
    if (!is_merged(piece)) continue;
    for (std::size_t at = 0; at < piece.text.size();) {
      at += std::max<std::size_t>(utf8_length(piece.text.substr(at, 4)), 1);
      const auto left = ids.find(piece.text.substr(0, at));
      const auto right = ids.find(piece.text.substr(std::min(at, piece.text.size())));
      if (left != ids.end() && right != ids.end())
        merges.emplace_back(-piece.score, left->second, right->second);
    }
  }
  std::ranges::sort(merges);
  Json list = Json::array();
  for (const auto& [score, left, right] : merges)
    list.push_back(Json::array({traits.pieces[left].text, traits.pieces[right].text}));
  return list;
}

Json bpe_model(const SentencepieceTraits& traits, const Json& unknown) {
  Json vocab = Json::object();
  for (std::size_t id = 0; id < traits.pieces.size(); ++id) vocab[std::string(traits.pieces[id].text)] = id;
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", traits.byte_fallback},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", merges_of(traits)}};
}

/// The score of each piece of a unigram model in sentencepiece's search, by id: the file's score, but for
/// user-defined symbols, which are chosen before others.
std::vector<double> unigram_scores(const SentencepieceTraits& traits) {
  float most = std::numeric_limits<float>::min();  // as sentencepiece has it: not lowest()
  for (const SentencepiecePiece& piece : traits.pieces) {
    if (piece.type == Type::kNormal) most = std::max(most, piece.score);
  }
  std::vector<double> scores;
  for (const SentencepiecePiece& piece : traits.pieces) {
    const bool symbol = piece.type == Type::kUserDefined;
    scores.push_back(symbol ? static_cast<float>(piece.text.size()) * most - 0.1 : piece.score);
  }
  return scores;
}

Json unigram_model(const SentencepieceTraits& traits) {
  Json vocab = Json::array();
  std::size_t unknown = 0;
  const std::vector<double> scores = unigram_scores(traits);
  for (std::size_t id = 0; id < traits.pieces.size(); ++id) {
    const SentencepiecePiece& piece = traits.pieces[id];
    if (piece.type == Type::kUnknown) unknown = id;
    vocab.push_back(Json::array({piece.text, scores[id]}));
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown},
          {"vocab", std::move(vocab)},
          {"byte_fallback", traits.byte_fallback}};
}

Json replaced(const Json& pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

Json sequence(const char* name, const Json& steps) {
  return {{"type", "Sequence"}, {name, steps}};
}

Json prepended() {
  return {{"type", "Prepend"}, {"prepend", kSpaceSign}};
}

/// Joins pieces, and bytes that stand for a character that no piece has.
Json decoder_of_bytes(const SentencepieceTraits& traits) {
  Json decoders = Json::array({replaced({{"String", kSpaceSign}}, " ")});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (traits.add_dummy_prefix)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", decoders);
}

/// How text becomes what BPE merges, and back: spaces are written as kSpaceSign.
void add_bpe_steps(const SentencepieceTraits& traits, Json& root) {
  Json normalizers = Json::array();
  if (traits.add_dummy_prefix) normalizers.push_back(prepended());
  normalizers.push_back(replaced({{"String", " "}}, kSpaceSign));
  root["normalizer"] = sequence("normalizers", normalizers);
  root["pre_tokenizer"] = nullptr;
  root["decoder"] = decoder_of_bytes(traits);
}

/// Adds the steps for the words of a unigram model.
void add_unigram_steps(const SentencepieceTraits& traits, Json& root) {
  Json normalizers = Json::array();
  if (!traits.normalizer_table.empty()) {
    const NormalizerTable table(traits.normalizer_table);
    // Precompiled replaces both characters by what the table has for the first.
    if (const auto first = table.find("\r"); first && !traits.remove_extra_whitespaces)
      normalizers.push_back(replaced({{"String", "\r\n"}}, str(*first, table.find("\n").value_or("\n"))));
    normalizers.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(traits.normalizer_table)}});
  }
  if (traits.remove_extra_whitespaces) {
    // Not "Strip": that takes away U+0085 too, which sentencepiece has as a character.
    normalizers.push_back(replaced({{"Regex", R"(\A +| +\z)"}}, ""));
    normalizers.push_back(replaced({{"Regex", " {2,}"}}, " "));
  } else if (traits.add_dummy_prefix) {  // Metaspace adds none to a text that begins with a space
    normalizers.push_back(prepended());
  }
  const bool of_words = std::ranges::none_of(traits.pieces, [](const SentencepiecePiece& piece) {
    return piece.text.find(kSpaceSign, 1) != std::string::npos;
  });
  const Json words{{"type", "Metaspace"},
                   {"replacement", kSpaceSign},
                   {"prepend_scheme", traits.add_dummy_prefix ? "always" : "never"},
                   {"split", of_words}};
  root["normalizer"] = normalizers.empty() ? Json(nullptr) : sequence("normalizers", normalizers);
  root["pre_tokenizer"] = words;
  root["decoder"] = traits.byte_fallback ? decoder_of_bytes(traits) : words;
}

/// Symbols that an added token stands for, by id. The parts of the text between added tokens are encoded
/// apart, with a space in front of each and none at its ends where the model asks for that; sentencepiece
/// does it to the whole. So a unigram model has its symbols as pieces, where the normalizer leaves them
/// alone.
std::vector<bool> symbols_apart(const SentencepieceTraits& traits) {
  std::optional<NormalizerTable> table;
  if (!traits.normalizer_table.empty()) table.emplace(traits.normalizer_table);
  const auto is_rewritten = [&](std::string_view text) {
    for (; !text.empty(); text.remove_prefix(1)) {
      if (text.starts_with(' ') || text.starts_with(kSpaceSign) || (table && table->find(text))) return true;
    }
    return false;
  };
  const bool unigram = traits.type == SentencepieceTraits::Type::kUnigram;
  return mapped(traits.pieces, [&](const SentencepiecePiece& piece) {
    return piece.type == Type::kUserDefined && (!unigram || is_rewritten(piece.text));
  });
}

Json added_tokens(const SentencepieceTraits& traits, const std::vector<bool>& apart) {
  Json tokens = Json::array();
  for (std::size_t id = 0; id < traits.pieces.size(); ++id) {
    const SentencepiecePiece& piece = traits.pieces[id];
    const bool special = piece.type == Type::kControl || piece.type == Type::kUnknown;
    if (!special && !apart[id]) continue;
    tokens.push_back({{"id", id},
                      {"content", piece.text},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special}});
  }
  return tokens;
}

/// BOS, the text, EOS; -1: none.
Json frame(const SentencepieceTraits& traits, std::int32_t bos, std::int32_t eos) {
  Json single = Json::array();
  Json tokens = Json::object();
  const auto add = [&](std::int32_t id) {
    if (id < 0) return;
    const std::string text(traits.pieces.at(static_cast<std::size_t>(id)).text);
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    tokens[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
  };
  add(bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(eos);
  if (tokens.empty()) return nullptr;
  Json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 0}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

bool is_convertible(const SentencepieceTraits& traits, const std::vector<bool>& apart) {
  if (!traits.escape_whitespaces || traits.treat_whitespace_as_suffix || !traits.denormalizer_table.empty())
    return false;
  const bool any_apart = std::ranges::find(apart, true) != apart.end();
  if ((traits.add_dummy_prefix || traits.remove_extra_whitespaces) && any_apart) return false;
  if (traits.type == SentencepieceTraits::Type::kUnigram) return true;
  return traits.type == SentencepieceTraits::Type::kBpe && traits.normalizer_table.empty() &&
         !traits.remove_extra_whitespaces;
}

}  // namespace

std::string tokenizer_json_of(std::string_view model_bytes, bool sources) {
  const auto traits = read_traits(model_bytes);
  if (!traits) return "";
  const SentencepieceTokenizer tokenizer(model_bytes, "tokenizer.model");  // refuses a table that is damaged
  const std::vector<bool> apart = symbols_apart(*traits);
  if (!is_convertible(*traits, apart)) return "";
  Json unknown;
  for (const SentencepiecePiece& piece : traits->pieces) {
    if (piece.type == Type::kUnknown) unknown = piece.text;
  }
  Json root{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root["added_tokens"] = added_tokens(*traits, apart);
  const bool bpe = traits->type == SentencepieceTraits::Type::kBpe;
  if (bpe)
    add_bpe_steps(*traits, root);
  else
    add_unigram_steps(*traits, root);
  root["post_processor"] = frame(*traits, tokenizer.bos_id(), sources ? tokenizer.eos_id() : -1);
  root["model"] = bpe ? bpe_model(*traits, unknown) : unigram_model(*traits);
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace echelon::data
