#include "text/token_ends.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "support/tokenizer_json.h"

namespace echelon {
namespace {

using Ends = std::vector<std::size_t>;

Ends ends_of(const nlohmann::ordered_json& document, const std::string& text) {
  const auto tokenizer = Tokenizer::from_bytes(document.dump(), "tokenizer.json");
  return token_ends(*tokenizer, text, tokenizer->encode(text));
}

TEST(TokenEnds, AreThoseOfTheTextsBytes) {
  // "h", two bytes of a character, "he", " t", a special token.
  EXPECT_EQ(ends_of(testing::byte_level_document(), "h\xC3\xA9he t[EOT]x"), (Ends{1, 2, 3, 5, 7, 12, 13}));
  EXPECT_EQ(ends_of(testing::byte_level_document(), ""), Ends{});
}

TEST(TokenEnds, TakeTheBlanksThatASpecialTokenTakes) {
  nlohmann::ordered_json document = testing::byte_level_document();
  document["added_tokens"][2]["rstrip"] = true;
  EXPECT_EQ(ends_of(document, "a[EOT] \n b[EOT]\n"), (Ends{1, 9, 10, 16}));
  document["added_tokens"][2]["lstrip"] = true;
  EXPECT_EQ(ends_of(document, "a \n[EOT] b"), (Ends{1, 9, 10}));
}

TEST(TokenEnds, LeaveOutASpaceThatTheTokenizerPutsInFront) {
  nlohmann::ordered_json document = testing::byte_level_document();
  document["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(ends_of(document, "te"), (Ends{1, 2}));  // " t", "e"
}

TEST(TokenEnds, TellTheBlanksOfASpecialTokenFromASpaceThatIsPutBehindIt) {
  nlohmann::ordered_json document = testing::byte_level_document();
  document["added_tokens"][2]["rstrip"] = true;
  document["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(ends_of(document, "te[EOT]\nte"), (Ends{1, 2, 8, 9, 10}));
  // The space is a token of its own.
  EXPECT_EQ(ends_of(document, "te[EOT]\nhe"), (Ends{1, 2, 8, 8, 10}));
  // An ideographic space is white space, too.
  EXPECT_EQ(ends_of(document, "te[EOT]\xE3\x80\x80te"), (Ends{1, 2, 10, 11, 12}));
}

TEST(TokenEnds, RefuseATextThatTheTokenizerChanges) {
  nlohmann::ordered_json document = testing::byte_level_document();
  document["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(ends_of(document, "he"), (Ends{2}));
  EXPECT_THROW((void)ends_of(document, "aHe"), Error);
}

}  // namespace
}  // namespace echelon
