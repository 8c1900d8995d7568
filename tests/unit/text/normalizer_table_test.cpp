#include "text/sentencepiece/normalizer_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/matches.h"
#include "support/sentencepiece_model.h"

namespace echelon::data {
namespace {

TEST(NormalizerTable, FindsTheShortestRule) {
  const NormalizerTable table(testing::normalizer_table(
      {{"\n", " "}, {"a", "b"}, {"ab", "c"}, {"xyz", ""}, {"\xEF\xAC\x81", "fi"}, {"\xEF\xAC\x82", "fl"}}));
  EXPECT_EQ(table.find("\nx"), " ");
  EXPECT_EQ(table.find("abc"), "b");
  EXPECT_EQ(table.find("xyz"), "");
  EXPECT_EQ(table.find("\xEF\xAC\x82"), "fl");
  EXPECT_EQ(table.find("xy"), std::nullopt);
  EXPECT_EQ(table.find("\xEF\xAC\x83"), std::nullopt);
  EXPECT_EQ(table.find(""), std::nullopt);
}

TEST(NormalizerTable, SharesTheEndsOfRules) {
  // The children of 'a' and 'b' are the same node: as "ac" and "bc" become the same text.
  std::string table = testing::normalizer_table({{"ac", "x"}});
  const std::uint32_t a = testing::unit_of(table, "a");
  const std::uint32_t to_child = testing::unit_bits(table, a) >> 10 ^ a;
  const std::uint32_t b = a ^ 'a' ^ 'b';
  testing::set_unit(table, b, (to_child ^ b) << 10 | 'b');
  ASSERT_EQ(normalizer_table_problem(table), "");
  EXPECT_EQ(NormalizerTable(table).find("ac"), "x");
  EXPECT_EQ(NormalizerTable(table).find("bc"), "x");
}

// What the library may have.

TEST(NormalizerTable, IsSafeAsItIsMade) {
  EXPECT_EQ(normalizer_table_problem(testing::normalizer_table({{"a", "b"}, {"ab", ""}, {"b", "cd"}})), "");
  std::map<std::string, std::string> nested;
  for (std::size_t length = 1; length <= 32; ++length) nested[std::string(length, 'x')] = "y";
  EXPECT_EQ(normalizer_table_problem(testing::normalizer_table(nested)), "");
  nested[std::string(33, 'x')] = "y";
  EXPECT_EQ(normalizer_table_problem(testing::normalizer_table(nested)),
            "more than 32 of its rules begin one another");
}

TEST(NormalizerTable, IsNotSafeWhenItLeadsOutOfItself) {
  const std::string table = testing::normalizer_table({{"a", "b"}});
  const auto problem_with = [&](std::uint32_t at, std::uint32_t bits) {
    std::string changed = table;
    testing::set_unit(changed, at, bits);
    return normalizer_table_problem(changed);
  };
  const std::uint32_t a = testing::unit_of(table, "a");
  const std::uint32_t value_of_a = (a ^ testing::unit_bits(table, a) >> 10);
  EXPECT_MENTIONS(problem_with(0, 0x7FFFFCU << 10), "unit 0 points outside its array");
  EXPECT_MENTIONS(problem_with(0, 0x1FFFFFU << 10 | 1U << 9), "unit 0 points outside its array");
  EXPECT_MENTIONS(problem_with(a, 0x1FFFFFU << 10 | 'a'), "points outside its array");
  EXPECT_MENTIONS(problem_with(a + 1, 0x1FFFFFU << 10 | 'b'), "points outside its array");
  EXPECT_MENTIONS(problem_with(value_of_a, 0xFFFFFFFFU), "points outside its texts");
  EXPECT_MENTIONS(problem_with(value_of_a, 0x80000002U), "points outside its texts");
  EXPECT_MENTIONS(problem_with(a, (a ^ testing::unit_bits(table, 0) >> 10) << 10 | 'a'), "cycle");
  EXPECT_MENTIONS(problem_with(0, 0), "cycle") << "the root is its own child";
}

TEST(NormalizerTable, IsNotSafeWhenItsPartsAreCut) {
  const std::string table = testing::normalizer_table({{"a", "b"}});
  EXPECT_NE(normalizer_table_problem(""), "");
  EXPECT_NE(normalizer_table_problem(table.substr(0, 4)), "");
  EXPECT_NE(normalizer_table_problem(table.substr(0, table.size() - 1)), "") << "no end of the last text";
  EXPECT_NE(normalizer_table_problem(table.substr(0, table.size() - 2)), "") << "no texts";
  std::string row = table;
  row[1] = static_cast<char>(row[1] - 1);  // the last 64 units become text
  EXPECT_EQ(normalizer_table_problem(row), "its array is truncated");
  EXPECT_NE(normalizer_table_problem(testing::normalizer_table({{"a", std::string(5000, 'b')}})), "");
  EXPECT_TRUE(
      normalizer_table_problem(testing::normalizer_table({{"a", "\xF0"}})).ends_with("is not valid UTF-8"));
}

}  // namespace
}  // namespace echelon::data
