#pragma once
#include <nlohmann/json.hpp>
#include <string>

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

inline std::string byte_level_json() {
  return byte_level_document().dump();
}

}  // namespace echelon::testing
