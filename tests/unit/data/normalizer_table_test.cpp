#include "data/normalizer_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "unit/data/sentencepiece_model.h"

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

}  // namespace
}  // namespace echelon::data
