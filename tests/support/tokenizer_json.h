#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace echelon::testing {

/// A byte-level tokenizer of 261 ids as `tokenizers` writes it: [PAD], [BOT], [EOT], 256 bytes by code point
/// of their character, "he" and "Ġt".
inline nlohmann::ordered_json byte_level_document() {
  const auto flags = [](const char* content, int id) {
    return nlohmann::ordered_json{{"id", id},        {"content", content}, {"single_word", false},
                                  {"lstrip", false}, {"rstrip", false},    {"normalized", false},
                                  {"special", true}};
  };
  nlohmann::ordered_json vocab{{"[PAD]", 0}, {"[BOT]", 1}, {"[EOT]", 2}};
  int id = 3;
  for (unsigned code = 0x21; code < 0x144; ++code) {
    if ((code > 0x7e && code < 0xa1) || code == 0xad) continue;
    const std::string character = code < 0x80 ? std::string(1, static_cast<char>(code))
                                              : std::string{static_cast<char>(0xC0 | (code >> 6)),
                                                            static_cast<char>(0x80 | (code & 0x3f))};
    vocab[character] = id++;
  }
  vocab["he"] = id++;
  vocab["Ġt"] = id++;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {flags("[PAD]", 0), flags("[BOT]", 1), flags("[EOT]", 2)}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", nlohmann::ordered_json::array({"h e", "Ġ t"})}}}};
}

/// A tokenizer.json with BPE of characters as Llama 2 has it: [PAD], [BOT], [EOT], <unk>, some letters, "▁h",
/// "he", and the bytes of "é" and "日" to fall back to.
inline nlohmann::ordered_json characters_document() {
  nlohmann::ordered_json document = byte_level_document();
  nlohmann::ordered_json& model = document["model"];
  nlohmann::ordered_json vocab = nlohmann::ordered_json::object();
  int id = 0;
  for (const char* token : {"[PAD]", "[BOT]", "[EOT]", "<unk>", "▁", "h", "e", "t", "▁h", "he", "<0xC3>",
                            "<0xA9>", "<0xE6>", "<0x97>", "<0xA5>"}) {
    vocab[token] = id++;
  }
  model["vocab"] = std::move(vocab);
  model["merges"] = nlohmann::ordered_json::array({"▁ h", "h e"});
  model["unk_token"] = "<unk>";
  model["fuse_unk"] = model["byte_fallback"] = true;
  const nlohmann::ordered_json space{{"String", " "}};
  const nlohmann::ordered_json sign{{"String", "▁"}};
  document["normalizer"] = {{"type", "Sequence"},
                            {"normalizers",
                             {{{"type", "Prepend"}, {"prepend", "▁"}},
                              {{"type", "Replace"}, {"pattern", space}, {"content", "▁"}}}}};
  document["pre_tokenizer"] = nullptr;
  document["decoder"] = {{"type", "Sequence"},
                         {"decoders",
                          {{{"type", "Replace"}, {"pattern", sign}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}},
                           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  return document;
}

/// A tokenizer.json with unigram pieces as T5 has it: [PAD], [BOT], [EOT], <unk>, some letters, "▁h", "he"
/// and the bytes of "é".
inline nlohmann::ordered_json unigram_document() {
  nlohmann::ordered_json document = byte_level_document();
  nlohmann::ordered_json vocab = nlohmann::ordered_json::array();
  const std::pair<const char*, double> pieces[] = {
      {"[PAD]", 0}, {"[BOT]", 0}, {"[EOT]", 0}, {"<unk>", 0}, {"▁", -2},       {"h", -3},
      {"e", -3.5},  {"t", -4},    {"▁h", -4.5}, {"he", -5},   {"<0xC3>", -20}, {"<0xA9>", -20}};
  for (const auto& [piece, score] : pieces) vocab.push_back(nlohmann::ordered_json::array({piece, score}));
  document["model"] = {
      {"type", "Unigram"}, {"unk_id", 3}, {"vocab", std::move(vocab)}, {"byte_fallback", true}};
  const nlohmann::ordered_json words{
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  document["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
  document["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", {{{"type", "WhitespaceSplit"}}, words}}};
  document["decoder"] = words;
  return document;
}

inline std::string byte_level_json() {
  return byte_level_document().dump();
}

}  // namespace echelon::testing
