#pragma once
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "text/bpe/tokenizer_json.h"
#include "text/text_span.h"

namespace echelon::data {

/// Returns the place behind the white space (Unicode's) that stands at `at` of a text in UTF-8.
[[nodiscard]] std::size_t skip_spaces(std::string_view text, std::size_t at);
/// Returns where the white space in front of `end` begins.
[[nodiscard]] std::size_t skip_spaces_back(std::string_view text, std::size_t end);

/// Finds added tokens in a text: leftmost first, of those that begin at one place the longest. Unchangeable.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  using OnText = std::function<void(std::string_view)>;
  using OnToken = std::function<void(std::int32_t)>;

  /// Gives the parts of `text` (valid UTF-8) in order: stretches without a token, none empty, and the tokens.
  /// Special tokens do not touch `typed`, parts of `text` in order.
  void split(std::string_view text, std::span<const TextSpan> typed, const OnText& on_text,
             const OnToken& on_token) const;

  [[nodiscard]] bool empty() const { return tokens_.empty(); }

 private:
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, std::size_t at,
                                             std::span<const TextSpan> typed) const;

  std::vector<AddedToken> tokens_;  // by content
  std::bitset<256> first_bytes_;
};

}  // namespace echelon::data
