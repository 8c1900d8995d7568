#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/split_pattern.h"
#include "text/bpe/tokenizer_json.h"

namespace echelon::data {

/// The normalizers of a tokenizer.json, in order; one per thread.
class TextNormalizer {
 public:
  /// `steps` must outlive it.
  explicit TextNormalizer(const std::vector<NormalizerStep>& steps);

  /// `text`: valid UTF-8. Throws Error(kData) when the library cannot (text above 1 GiB, or what a regular
  /// expression takes too long for).
  [[nodiscard]] std::string normalize(std::string_view text) const;

 private:
  const std::vector<NormalizerStep>& steps_;
  std::vector<std::optional<SplitPattern::Matcher>> matchers_;  // by step
};

}  // namespace echelon::data
