#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "text/special_ids.h"

namespace echelon {

/// Files beside a tokenizer's.
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kChatTemplate = "chat_template.jinja";

/// Content of a file of a folder; empty: there is none.
using FolderFile = std::function<std::string(const std::string& name)>;

/// The text of a token of tokenizer_config.json, which writes it as text or as an object with flags; empty
/// for anything else.
[[nodiscard]] std::string added_token_text(const nlohmann::json& token);

/// The folder in which a tokenizer's file lies, with what may lie beside it: the other files of a Hugging
/// Face model.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(const std::filesystem::path& tokenizer_file);
  /// `file` reads the folder's files, for example those of a checkpoint, which have checksums.
  TokenizerFolder(std::filesystem::path path, FolderFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Content of a file; empty: there is none. Throws Error(kData) for one that cannot be read or has more
  /// than 16 MiB.
  [[nodiscard]] std::string text(const std::string& name) const { return file_(name); }
  /// Returns tokenizer_config.json as transformers takes it: where it has no added_tokens_decoder, which
  /// transformers 5 does not write, members of special_tokens_map.json replace its own. An empty object where
  /// there is neither. Throws Error(kData) for a file that is no JSON object.
  [[nodiscard]] nlohmann::json config() const;
  /// Returns the ends that transformers' generate uses: those of generation_config.json, else those of
  /// config.json. Throws Error(kData) for a file that is not understood.
  [[nodiscard]] SpecialIds special_ids() const;
  /// `tokenizer`: the bytes of the folder's tokenizer file. Throws Error(kData) if it is a tokenizer.json,
  /// and tokenizer_config.json has a list with a token that it lacks or has otherwise, or another
  /// add_prefix_space: transformers would encode text in another way.
  void require_same_tokens(std::string_view tokenizer) const;
  /// Throws Error(kData) if add_bos_token of tokenizer_config.json says otherwise than `tokenizer`, the
  /// folder's, whether BOS begins a text, and transformers 4 would heed it.
  void require_same_begin(const Tokenizer& tokenizer) const;

 private:
  [[nodiscard]] std::string name_in_messages(const char* file) const;
  [[nodiscard]] nlohmann::json object_in(const char* file) const;

  std::filesystem::path path_;
  FolderFile file_;
};

}  // namespace echelon
