// Any bytes as a tokenizer.json: loading must end in success or in Error, and what is loaded must encode and
// decode any text with ids of its vocabulary.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/refused.h"
#include "support/sentencepiece_model.h"
#include "support/tokenizer_json.h"
#include "text/base64.h"
#include "text/bpe/bpe_tokenizer.h"

namespace {

using Json = nlohmann::ordered_json;

Json split(const char* kind, const char* pattern, const char* behavior) {
  return {{"type", "Split"}, {"pattern", {{kind, pattern}}}, {"behavior", behavior}, {"invert", false}};
}

/// A vocabulary of some letters keeps the structure around it within reach of mutations.
Json small() {
  Json document = echelon::testing::byte_level_document();
  document["model"]["vocab"] = {{"[PAD]", 0}, {"[BOT]", 1}, {"[EOT]", 2}, {"h", 3},  {"e", 4},
                                {"Ġ", 5},     {"t", 6},     {"he", 7},    {"Ġt", 8}, {"<0xC4>", 9}};
  return document;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  Json llama = small();
  llama["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers",
                             {split("Regex", "[^\\r\\n\\p{L}]?\\p{L}+|\\s+(?!\\S)|\\s+", "Isolated"),
                              split("String", "he", "MergedWithNext"),
                              {{"type", "Digits"}, {"individual_digits", false}},
                              llama["pre_tokenizer"]}}};
  llama["model"]["ignore_merges"] = true;
  llama["model"]["byte_fallback"] = true;
  llama["model"]["unk_token"] = "[PAD]";
  Json normalized = small();
  normalized["normalizer"] = {{"type", "Sequence"},
                              {"normalizers", {{{"type", "NFKC"}}, {{"type", "Lowercase"}}}}};
  normalized["added_tokens"][2]["normalized"] = true;
  normalized["added_tokens"][2]["lstrip"] = true;
  normalized["added_tokens"][1]["single_word"] = true;
  const Json text = {{"Sequence", {{"id", "A"}}}};
  const Json end = {{"SpecialToken", {{"id", "[EOT]"}}}};
  normalized["post_processor"] = {{"type", "TemplateProcessing"},
                                  {"single", {text, end}},
                                  {"special_tokens", {{"[EOT]", {{"ids", {2}}}}}}};
  Json words = echelon::testing::characters_document();
  words["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  words["decoder"] = words["pre_tokenizer"];
  words["model"]["fuse_unk"] = false;
  Json pieces = echelon::testing::unigram_document();
  const std::string table =
      echelon::testing::normalizer_table({{"h", "t"}, {"\xEF\xAC\x81", "fi"}, {"\r", ""}});
  pieces["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Nmt"}},
        {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
        {{"type", "StripAccents"}},
        pieces["normalizer"],
        {{"type", "Precompiled"}, {"precompiled_charsmap", echelon::data::to_base64(table)}}}}};
  return {small().dump(),    llama.dump(),
          normalized.dump(), echelon::testing::characters_document().dump(),
          words.dump(),      echelon::testing::unigram_document().dump(),
          pieces.dump()};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return text_used_or_refused(echelon::Code::kData, data, size, [](std::string_view bytes) {
    const echelon::data::BpeTokenizer tokenizer(bytes, "fuzzed");
    for (const std::string_view text :
         {std::string_view("the he [BOT] x[EOT] 12 \xC3\x85\xEF\xAC\x81\n\n\t \xE6\x97\xA5\xFF"),
          bytes.substr(0, 200)}) {
      const auto ids = tokenizer.encode(text);
      for (const std::int32_t id : ids) {
        if (id < 0 || id >= tokenizer.vocab_size()) __builtin_trap();
      }
      (void)tokenizer.decode(ids);
    }
  });
}
