#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/text_span.h"

namespace echelon::data {

/// A compiled regular expression (PCRE2 with its JIT) that finds where a text is split. Unchangeable and used
/// by any number of threads, each through a Matcher of its own.
class SplitPattern {
 public:
  /// `pattern`: in the syntax of a tokenizer.json (pattern_syntax.h). `field`: its place, for messages.
  /// Throws Error(kData): malformed or not supported.
  SplitPattern(std::string_view pattern, const std::string& field);

  /// Finds `text` itself.
  [[nodiscard]] static SplitPattern literal(std::string_view text, std::string field);

  class Matcher {
   public:
    explicit Matcher(const SplitPattern& pattern);
    Matcher(Matcher&&) noexcept;
    ~Matcher();

    /// The first match at or behind `from` in valid UTF-8. Throws Error(kData) when it takes more than
    /// PCRE2's limits on work and memory.
    [[nodiscard]] std::optional<TextSpan> find(std::string_view text, std::size_t from) const;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Compiled;
  SplitPattern(std::string_view pattern, std::string field, unsigned options);
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace echelon::data
