#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

/// The ids that a model ends text with, as the files of a Hugging Face folder state them.
namespace echelon {

struct SpecialIds {
  std::vector<std::int32_t> ends;  ///< each ends a text; empty: not stated
  std::string end_token;           ///< the one behind a document, by tokenizer_config.json; empty: not stated
};

inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";

/// Content of a file of the folder; empty: there is none.
using FolderFile = std::function<std::string(const std::string& name)>;

/// Returns tokenizer_config.json as transformers takes it: where it has no added_tokens_decoder, which
/// transformers 5 does not write, members of special_tokens_map.json replace its own. An empty object where
/// there is neither. `folder` is for messages. Throws Error(kData) for a file that is no JSON object.
[[nodiscard]] nlohmann::json tokenizer_config_of(const FolderFile& file, const std::string& folder);

/// Returns `eos_token_id` of a config.json or generation_config.json: one id or several. `what` names the
/// file. Throws Error(kData) for anything else.
[[nodiscard]] std::vector<std::int32_t> end_ids_of(const std::string& config, const std::string& what);

/// Returns the ends that transformers' generate uses: those of generation_config.json, else those of
/// config.json. `folder` is for messages. Throws Error(kData) for a file that is not understood.
[[nodiscard]] SpecialIds special_ids_of(const FolderFile& file, const std::string& folder);

/// Returns the id behind a document that such a model is trained on. It is the end that the tokenizer's
/// configuration names, else the tokenizer's own EOS if that is an end or no ends are known, else the first
/// end. -1: there is none.
[[nodiscard]] std::int32_t document_end(const SpecialIds& ids, const Tokenizer& tokenizer);

/// The tokenizer with another EOS, which may be above its own ids; unchanged for -1.
[[nodiscard]] std::unique_ptr<const Tokenizer> ending_with(std::unique_ptr<const Tokenizer> tokenizer,
                                                           std::int32_t eos);

}  // namespace echelon
