#pragma once
#include <string_view>

namespace echelon {

/// F-measures, 0 to 1.
struct RougeScores {
  double rouge1 = 0;   ///< words in common
  double rouge2 = 0;   ///< pairs of neighboring words in common
  double rouge_l = 0;  ///< longest sequence of words in common, gaps allowed
};

/// Scores how much of `reference` a generated text covers and the reverse (Lin, ROUGE: A Package for
/// Automatic Evaluation of Summaries). Words are runs of ASCII letters, without regard to case, and digits;
/// no stemming: the numbers of the Python package rouge_score. UTF-8; time grows with the product of the
/// words.
[[nodiscard]] RougeScores rouge(std::string_view generated, std::string_view reference);

}  // namespace echelon
