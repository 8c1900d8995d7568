#include "text/sentencepiece/normalizer_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/matches.h"
#include "support/sentencepiece_model.h"

namespace echelon::data {
namespace {

using Rules = std::map<std::string, std::string>;

/// The rules, and "damaged" for a table that is not whole.
Rules rules_of(std::string_view table) {
  Rules rules;
  const bool whole = for_each_rule(table, [&](std::string_view from, std::string_view to) {
    rules.emplace(std::string(from), std::string(to));
  });
  if (!whole) rules["damaged"] = "";
  return rules;
}

TEST(NormalizerTable, TellsEveryRule) {
  const Rules rules{{"\n", " "},           {"a", "b"}, {"ab", "c"}, {"abc", ""}, {"\xEF\xAC\x81", "fi"},
                    {"\xEF\xAC\x82", "fl"}};
  EXPECT_EQ(rules_of(testing::normalizer_table(rules)), rules);
}

TEST(NormalizerTable, SharesTheEndsOfRules) {
  // The children of 'a' and 'b' are the same node: as "ac" and "bc" become the same text.
  std::string table = testing::normalizer_table({{"ac", "x"}});
  const std::uint32_t a = testing::unit_of(table, "a");
  const std::uint32_t to_child = testing::unit_bits(table, a) >> 10 ^ a;
  const std::uint32_t b = a ^ 'a' ^ 'b';
  testing::set_unit(table, b, (to_child ^ b) << 10 | 'b');
  EXPECT_EQ(rules_of(table), (Rules{{"ac", "x"}, {"bc", "x"}}));
}

TEST(NormalizerTable, IsRefusedWhenDamaged) {
  const std::string table = testing::normalizer_table({{"a", "b"}});
  EXPECT_TRUE(rules_of("").contains("damaged"));
  EXPECT_TRUE(rules_of("abc").contains("damaged"));
  EXPECT_TRUE(rules_of(std::string_view(table).substr(0, 100)).contains("damaged"));
  EXPECT_TRUE(rules_of(std::string_view(table).substr(0, table.size() - 1)).contains("damaged"))
      << "no end of a text";
  std::string circle = table;
  const std::uint32_t a = testing::unit_of(table, "a");
  testing::set_unit(circle, a, (a ^ testing::unit_bits(table, 0) >> 10) << 10 | 'a');
  EXPECT_TRUE(rules_of(circle).contains("damaged")) << "a node that is its own child";
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
