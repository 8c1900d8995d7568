#include "text/rouge.h"

#include <gtest/gtest.h>

#include <string>

namespace echelon {
namespace {

void expect_scores(const RougeScores& scores, double rouge1, double rouge2, double rouge_l) {
  EXPECT_DOUBLE_EQ(scores.rouge1, rouge1);
  EXPECT_DOUBLE_EQ(scores.rouge2, rouge2);
  EXPECT_DOUBLE_EQ(scores.rouge_l, rouge_l);
}

TEST(Rouge, TheSameWordsScoreOne) {
  expect_scores(rouge("The cat sat.", "the CAT, sat"), 1, 1, 1);
}

TEST(Rouge, NothingInCommonAndNothingAtAllScoreZero) {
  expect_scores(rouge("one two", "three four"), 0, 0, 0);
  expect_scores(rouge("", "three four"), 0, 0, 0);
  expect_scores(rouge("...", "..."), 0, 0, 0);
}

TEST(Rouge, OrderCountsForPairsAndSequencesOnly) {
  // Pairs of "a b c d" and "c d a b": a b, c d of three; longest sequence: two of four.
  expect_scores(rouge("a b c d", "c d a b"), 1, 2.0 / 3, 0.5);
}

TEST(Rouge, AWordCountsAsOftenAsBothHaveIt) {
  // "a a a" and "a b": one word in common, of three and of two.
  expect_scores(rouge("a a a", "a b"), 2 * (1.0 / 3) * 0.5 / (1.0 / 3 + 0.5), 0, 0.4);
}

TEST(Rouge, LongTextsAreScored) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i) + " ";
  expect_scores(rouge(text, text), 1, 1, 1);
}

}  // namespace
}  // namespace echelon
