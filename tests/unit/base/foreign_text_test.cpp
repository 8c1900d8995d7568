#include "base/foreign_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
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

TEST(ForeignText, AllSystemsWriteTheSameLines) {
  EXPECT_EQ(unix_text("\xEF\xBB\xBF"
                      "one\r\n\r\ntwo\r"),
            "one\n\ntwo");
  EXPECT_EQ(unix_text("a\rb\n \xEF\xBB\xBF"), "a\rb\n \xEF\xBB\xBF");
  EXPECT_EQ(unix_text(""), "");
}

TEST(ForeignText, PrintableCutsBetweenCharacters) {
  EXPECT_EQ(printable("aé日", 2), "aé...");
  EXPECT_EQ(printable("aé日", 6), "aé日");
}

TEST(TerminalText, IsForeignTextThatKeepsLinesAndTabs) {
  EXPECT_EQ(terminal_text("one\n\ttwo\x1b\n"), "one\n\ttwo\\x1b\n");
  std::string all = "Größe 日本 🙂 \xC2\x9B \xED\xA0\x80 \xC0\xAF \xC3";
  for (int byte = 0; byte < 256; ++byte)
    if (byte != '\n' && byte != '\t') all += static_cast<char>(byte);
  EXPECT_EQ(terminal_text(all), foreign_text(all));
}

TEST(AsHtml, IsEscapedForeignText) {
  EXPECT_EQ(as_html("<script>alert('x')</script> & \"y\""),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;");
  EXPECT_EQ(as_html(std::string_view("a\0b\xff\x1b[2J\n", 9)), "a\\x00b\\xff\\x1b[2J\\x0a");
  EXPECT_EQ(as_html("\u202E"), "\\xe2\\x80\\xae") << "would turn the direction of what follows";
  EXPECT_EQ(as_html("Größe µ"), "Größe µ");
}

TEST(JsonText, IsJsonWhateverTheBytes) {
  const nlohmann::ordered_json value{{"path", "run-\xFF-\xC3\x9F\x1b"}};
  const std::string text = json_text(value, -1);
  EXPECT_EQ(text, "{\"path\":\"run-\xEF\xBF\xBD-\xC3\x9F\\u001b\"}");
  EXPECT_EQ(nlohmann::json::parse(text)["path"], "run-\xEF\xBF\xBD-\xC3\x9F\x1b");
}

TEST(JsonText, HoldsNothingThatATerminalWouldObey) {
  const std::string raw =
      "a\x7F"
      "b\xC2\x9B"
      "2J\xC3\x9F\x1b[2J\r\xE2\x80\x8B\xF3\xA0\x81\x81";
  const nlohmann::json value{{"name", raw}};
  const std::string text = json_text(value, -1);
  EXPECT_EQ(text, "{\"name\":\"a\\u007fb\\u009b2J\xC3\x9F\\u001b[2J\\r\\u200b\\udb40\\udc41\"}");
  EXPECT_EQ(terminal_text(json_text(value)), json_text(value));
  EXPECT_EQ(nlohmann::json::parse(text)["name"], raw);
}

}  // namespace
}  // namespace echelon
