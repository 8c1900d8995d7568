#include "text/sentencepiece/unigram_words.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "support/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace echelon::data {
namespace {

using testing::SentencepieceModel;
using Type = SentencepiecePiece::Type;

const std::map<std::string, std::string> kRules{
    {"\n", " "},        {"\t", " "},        {"\x01", ""},     {"\xEF\xAC\x81", "fi"},
    {"\xC2\xA8", " e"}, {"a\xCC\x81", "e"}, {"\xC2\xA0", " "}};

SentencepieceModel base() {
  SentencepieceModel model;
  model.piece("<unk>", 0, Type::kUnknown).piece("</s>", 0, Type::kControl).piece(kSpaceSign, -3);
  return model;
}

/// Pieces of few letters, with scores so near to each other that rounding decides.
SentencepieceModel random_model(std::mt19937& random, float spread) {
  SentencepieceModel model = base();
  std::set<std::string> known{std::string(kSpaceSign)};
  std::uniform_real_distribution<float> score(-8 - spread, -8);
  const auto letter = [&] { return "abefi\xC3"[random() % 5]; };
  for (int i = 0; i < 60; ++i) {
    std::string text = random() % 3 == 0 ? std::string(kSpaceSign) : "";
    for (auto left = 1 + random() % 4; left > 0; --left) text += letter();
    if (known.insert(text).second) model.piece(text, score(random) * static_cast<float>(text.size()));
  }
  model.piece("<x>", 0, Type::kUserDefined).piece("abab", -1, Type::kUnused);
  return model;
}

std::string random_text(std::mt19937& random, std::size_t parts) {
  const std::vector<std::string> kinds{"a",
                                       "b",
                                       "e",
                                       "f",
                                       "i",
                                       "a",
                                       "b",
                                       "q",
                                       "\xC3\xA9",
                                       "\xEF\xAC\x81",
                                       "\xC2\xA8",
                                       "a\xCC\x81",
                                       " ",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\t ",
                                       "\x01",
                                       "\xC2\xA0",
                                       "<x>",
                                       "<x",
                                       "\xE3\x81\x82",
                                       "\xFF",
                                       "\xE3\x81",
                                       std::string(1, '\0'),
                                       "ab",
                                       "abab",
                                       "fi"};
  std::string text;
  for (; parts > 0; --parts) text += kinds[random() % kinds.size()];
  return text;
}

void expect_as_library(const SentencepieceTokenizer& tokenizer, TextEncoder& encoder,
                       const std::string& text) {
  std::vector<std::int32_t> whole;
  tokenizer.append(text, whole);
  std::vector<std::int32_t> found;
  encoder.encode(text, found);
  ASSERT_EQ(found, whole) << text.substr(0, 200);
}

TEST(UnigramWords, GiveTheIdsOfTheWholeText) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const auto bytes = random_model(random, round % 2 == 0 ? 1e-3F : 4).rules(kRules).bytes();
    ASSERT_TRUE(UnigramWords::of(*read_traits(bytes))) << "or nothing is tested";
    const SentencepieceTokenizer tokenizer(bytes, "test");
    const auto encoder = tokenizer.make_encoder();
    for (int i = 0; i < 600; ++i) expect_as_library(tokenizer, *encoder, random_text(random, random() % 40));
    // Here the scores are large, and each word is known by now.
    for (int i = 0; i < 3; ++i) expect_as_library(tokenizer, *encoder, random_text(random, 20000));
  }
}

TEST(UnigramWords, LeaveTheSpaceSignOfATextToTheLibrary) {
  std::mt19937 random(6);
  const SentencepieceTokenizer tokenizer(random_model(random, 1).rules(kRules).bytes(), "test");
  const auto encoder = tokenizer.make_encoder();
  const std::string sign(kSpaceSign);
  for (const std::string& text : {"a" + sign + " b", sign + " " + sign, "a " + sign + "b", sign}) {
    expect_as_library(tokenizer, *encoder, text);
  }
}

TEST(UnigramWords, AreNotForModelsThatGiveNoPromise) {
  const auto usable = [](const SentencepieceModel& model) {
    return UnigramWords::of(*read_traits(model.bytes())) != nullptr;
  };
  const std::string sign(kSpaceSign);
  EXPECT_TRUE(usable(base()));
  EXPECT_TRUE(usable(base().rules(kRules).piece(sign + "a", -1).piece("<x>", 0, Type::kUserDefined)));
  EXPECT_FALSE(usable(base().trainer(3, 2))) << "BPE";
  EXPECT_FALSE(usable(base().trainer(24, 1))) << "spaces behind words";
  EXPECT_FALSE(usable(base().trainer(35, 1))) << "bytes for unknown characters";
  EXPECT_FALSE(usable(base().normalizer(3, 0))) << "no space in front";
  EXPECT_FALSE(usable(base().normalizer(4, 0))) << "runs of spaces stay";
  EXPECT_FALSE(usable(base().normalizer(5, 0))) << "spaces stay spaces";
  EXPECT_FALSE(usable(SentencepieceModel().piece("<unk>", 0, Type::kUnknown).piece("a", -1)))
      << "unknown spaces";
  EXPECT_FALSE(usable(base().piece("a" + sign + "b", -1))) << "a piece over a space";
  EXPECT_FALSE(usable(base().piece(sign + sign, -1))) << "two spaces";
  EXPECT_FALSE(usable(base().piece("x y", 0, Type::kUserDefined))) << "a symbol over a space";
  for (const auto& [from, to] : std::map<std::string, std::string>{{"a b", "c"},
                                                                   {" \xCC\x81", "c"},
                                                                   {" ", "_"},
                                                                   {"c", "a  b"},
                                                                   {"c", sign},
                                                                   {sign + "a", "b"},
                                                                   {sign, "b"}}) {
    EXPECT_FALSE(usable(base().rules({{from, to}}))) << from << " becomes " << to;
  }
}

}  // namespace
}  // namespace echelon::data
