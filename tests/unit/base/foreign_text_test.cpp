#include "base/foreign_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace echelon {
namespace {

TEST(TerminalText, KeepsWellFormedTextAndItsLines) {
  const std::string text =
      "a/b c\ttab\nStra\xC3\x9F"
      "e \xE2\x82\xAC \xF0\x9F\x99\x82";
  EXPECT_EQ(terminal_text(text), text);
}

TEST(TerminalText, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(terminal_text("\x1b[2J\r\b\x7F"), "\\x1b[2J\\x0d\\x08\\x7f");
  EXPECT_EQ(terminal_text("\xC2\x9B"
                          "2J"),
            "\\xc2\\x9b2J")
      << "CSI as one character";
  EXPECT_EQ(terminal_text(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(TerminalText, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(terminal_text("run-\xFF-\xC3"), "run-\\xff-\\xc3");
  EXPECT_EQ(terminal_text("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "half of a surrogate pair";
  EXPECT_EQ(terminal_text("\xC0\xAF"), "\\xc0\\xaf") << "an overlong slash";
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
      "2J\xC2\xA0\xC3\x9F\x1b[2J\r";
  const nlohmann::json value{{"name", raw}};
  const std::string text = json_text(value, -1);
  EXPECT_EQ(text, "{\"name\":\"a\\u007fb\\u009b2J\xC2\xA0\xC3\x9F\\u001b[2J\\r\"}");
  EXPECT_EQ(terminal_text(text), text);
  EXPECT_EQ(nlohmann::json::parse(text)["name"], raw);
}

}  // namespace
}  // namespace echelon
