#include "support/golden_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/fs.h"
#include "support/places.h"
#include "support/refusal.h"

namespace echelon::test {
namespace {

GoldenTable table_of(const std::string& text) {
  return {.about = "", .cases = {{"one", {{"", text}, {"said", text}}}, {"two", {{"", text}}}}};
}

TEST(GoldenTable, KeepsEveryByte) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("\n\n"), std::string("\n\na\n\nb\n\n"),
        std::string("a"), std::string("a\n "), std::string(" \n"), std::string("== a\n-- b\n\\c\n\\ \n"),
        std::string("a\\c"), std::string("a\\\\c\\x41\r\n"), bytes, bytes + bytes + "\n"}) {
    const std::string spelt = spell_golden(table_of(text));
    const GoldenTable again = parse_golden(spelt, "t");
    ASSERT_EQ(again.cases.size(), 2U) << spelt;
    EXPECT_EQ(again.cases[0].parts, table_of(text).cases[0].parts) << spelt;
    EXPECT_EQ(again.cases[1].parts, table_of(text).cases[1].parts) << spelt;
    for (const char c : spelt) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << spelt;
  }
}

TEST(GoldenTable, ShowsWhatCannotBeSeen) {
  const GoldenTable table{.about = "About.\n",
                          .cases = {{"one", {{"", "a: \x01\n\\ b\nc"}, {"said", "x\n\n"}}}}};
  EXPECT_EQ(spell_golden(table), "About.\n\n== one\n\\ a: \\x01\n\\ \\\\ b\n\\ c\\c\n-- said\nx\n\\\n");
}

TEST(GoldenTable, LeavesBlankLinesOutWhereATextEnds) {
  const GoldenTable table = parse_golden("\nAbout.\n\n\n== one\n\na\n\n\n-- said\nb\n\n", "t");
  EXPECT_EQ(table.about, "\nAbout.\n");
  ASSERT_EQ(table.cases.size(), 1U);
  EXPECT_EQ(*table.cases[0].part(""), "\na\n");
  EXPECT_EQ(*table.cases[0].part("said"), "b\n");
}

std::string fault_of(const std::string& content) {
  return test::refusal(Code::kUsage, [&] { return parse_golden(content, "t"); });
}

TEST(GoldenTable, RefusesWhatHasTwoMeaningsOrNone) {
  EXPECT_EQ(fault_of("== a\n\n== a\n"), "t:3: a second case 'a'");
  EXPECT_EQ(fault_of("== a\n-- b\n-- b\n"), "t:3: a second part 'b' of 'a'");
  EXPECT_EQ(fault_of("-- b\n"), "t:1: a part before the first case");
  EXPECT_EQ(fault_of("== a\n\\ b\\c\nc\n"), "t:3: nothing may follow \\c");
  for (const char* line : {"\\a", "\\ \\", "\\ \\x1", "\\ \\xG0", "\\ \\xAB", "\\ \\n", "\\ \\ca"})
    EXPECT_TRUE(fault_of(line).starts_with("t:1: expected a space behind the backslash")) << line;
}

/// Also that tests/e2e/golden.py and this reader mean the same.
TEST(GoldenTable, OfEveryTestIsSpeltAsAnUpdateSpellsIt) {
  std::size_t tables = 0;
  for (const char* family : {"recipe", "e2e", "submit"}) {
    for (const fs::Path& file : golden_tables(fs::Path(source_dir()) / "tests" / "golden" / family)) {
      ++tables;
      EXPECT_EQ(spell_golden(read_golden(file)), fs::read_file(file, 1 << 20, Code::kUsage)) << file;
    }
  }
  EXPECT_GE(tables, 15U);
}

}  // namespace
}  // namespace echelon::test
