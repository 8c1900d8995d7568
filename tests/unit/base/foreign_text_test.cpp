#include "base/foreign_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/str.h"

namespace echelon {
namespace {

TEST(ForeignText, KeepsWhatPeopleWrite) {
  const std::string text = "runs/Größe 日本 🙂 ~\\x";
  EXPECT_EQ(foreign_text(text), text);
  EXPECT_EQ(foreign_text(""), "");
}

TEST(ForeignText, WritesOutWhatActsOnATerminal) {
  EXPECT_EQ(foreign_text("\x1b[2J\x07"), "\\x1b[2J\\x07");
  EXPECT_EQ(foreign_text(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(foreign_text("one\r\ntwo\t"), "one\\x0d\\x0atwo\\x09");
  EXPECT_EQ(foreign_text("\xC2\x9B"
                         "31m"),
            "\\xc2\\x9b31m");  // the control sequence introducer in one character
  EXPECT_EQ(foreign_text("a\xE2\x80\xAE"
                         "b"),
            "a\\xe2\\x80\\xaeb");  // from right to left
}

TEST(ForeignText, WritesOutWhatIsNotUtf8) {
  EXPECT_EQ(foreign_text("a\xFFz"), "a\\xffz");
  EXPECT_EQ(foreign_text("caf\xE9"), "caf\\xe9");                     // Latin-1
  EXPECT_EQ(foreign_text("\xE2\x82"), "\\xe2\\x82");                  // cut
  EXPECT_EQ(foreign_text("\xED\xA0\x80"), "\\xed\\xa0\\x80");         // a surrogate
  EXPECT_EQ(foreign_text("\xC0\xAF\xC3\xA4"), "\\xc0\\xaf\xC3\xA4");  // overlong, then a good one
}

TEST(ForeignText, EveryByteGivesUtf8) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string shown = foreign_text(all + all);
  for (std::size_t at = 0; at < shown.size();) {
    const std::size_t length = utf8_length(std::string_view(shown).substr(at));
    ASSERT_NE(length, 0U);
    at += length;
  }
  EXPECT_EQ(foreign_text(shown), shown);
}

TEST(ForeignText, LinesStayLines) {
  EXPECT_EQ(foreign_lines("one\ntwo\x1b\n"), "one\ntwo\\x1b\n");
}

TEST(ForeignText, PrintableCutsBetweenCharacters) {
  EXPECT_EQ(printable("aé日", 2), "aé...");
  EXPECT_EQ(printable("aé日", 6), "aé日");
}

}  // namespace
}  // namespace echelon
