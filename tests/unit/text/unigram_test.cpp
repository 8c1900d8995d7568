#include "support/sentencepiece_model.h"
#include "support/tokenizer_json.h"
#include "text/base64.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/unigram/charsmap.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;
using namespace testing;  // NOLINT

TEST(Unigram, ChoosesThePiecesOfTheLargestSum) {
  const BpeTokenizer tokenizer(unigram_document().dump(), "t");
  EXPECT_EQ(tokenizer.encode("he"), (Ids{4, 9}));             // -2 - 5 beats -4.5 - 3.5
  EXPECT_EQ(tokenizer.encode("h t"), (Ids{8, 4, 7}));         // -4.5 beats -2 - 3
  EXPECT_EQ(tokenizer.encode("xyt"), (Ids{4, 3, 7}));         // unknown ones in a row are one
  EXPECT_EQ(tokenizer.encode("t\xC3\xA9x"), (Ids{4, 7, 3}));  // all of it in bytes, or none
  EXPECT_EQ(tokenizer.encode("t\xC3\xA9"), (Ids{4, 7, 10, 11}));
  EXPECT_EQ(tokenizer.encode("t  [EOT] t\n"), (Ids{4, 7, 2, 4, 7}));
  EXPECT_EQ(tokenizer.encode(" "), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{4, 9, 2, 8, 7}), "he ht");
  EXPECT_EQ(tokenizer.vocab_size(), 12);
}

TEST(Unigram, AnUnknownRunThatIsAPieceHasItsId) {
  Json document = unigram_document();
  document["model"]["vocab"].push_back(Json::array({"xy", 0}));
  for (Json& piece : document["model"]["vocab"])
    piece[1] = 30;  // two unknown characters are better than one piece
  const BpeTokenizer tokenizer(document.dump(), "t");
  EXPECT_EQ(tokenizer.encode("xy"), (Ids{4, 12}));
  EXPECT_EQ(tokenizer.encode("xyx"), (Ids{4, 3}));
}

TEST(Unigram, ATextWithoutWordsIsCutAtOnce) {
  Json document = unigram_document();
  document["normalizer"] = document["pre_tokenizer"] = nullptr;
  const BpeTokenizer tokenizer(document.dump(), "t");
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "het";
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(ids.size(), 200000U);
  EXPECT_EQ(Ids(ids.end() - 4, ids.end()), (Ids{9, 7, 9, 7}));
}

TEST(Charsmap, ReplacesShortClustersAsAWhole) {
  const NormalizerTable table(testing::normalizer_table(
      {{"\r", " "}, {"\n", "_"}, {"A", "a"}, {"e\xCC\x81", "\xC3\xA9"}, {"\xEF\xAC\x81", "fi"}}));
  EXPECT_EQ(apply_charsmap(table, "Ab\r\r\n\n"), "ab  _");
  EXPECT_EQ(apply_charsmap(table, "e\xCC\x81 e"), "\xC3\xA9 e");
  EXPECT_EQ(apply_charsmap(table, "A\xCC\x81"), "a");  // the mark is lost
  EXPECT_EQ(apply_charsmap(table, "A\xCC\x81\xCC\x81\xCC\x81"), "a\xCC\x81\xCC\x81\xCC\x81");  // seven bytes
  EXPECT_EQ(apply_charsmap(table, "\xEF\xAC\x81\xEF\xAC\x81"), "fifi");
}

TEST(Unigram, RefusesByFieldWhatItWouldDoOtherwise) {
  const auto refusal = [](const char* where, const Json& value) {
    Json document = unigram_document();
    document[Json::json_pointer(where)] = value;
    const std::string text = message_of([&] { BpeTokenizer(document.dump(), "t"); });
    const std::string front = "tokenizer 't': field tokenizer.json";
    return text.starts_with(front) ? text.substr(front.size()) : text;
  };
  EXPECT_EQ(refusal("/model/unk_id", nullptr), ".model has no field 'unk_id'");
  EXPECT_EQ(refusal("/model/unk_id", 12), ".model.unk_id is 12, expected a number from 0 to 11");
  EXPECT_EQ(refusal("/model/vocab", Json::array()), ".model.vocab is array, expected 1 to 4000000 tokens");
  EXPECT_EQ(refusal("/model/vocab/5", {"h"}), ".model.vocab[5] is array, expected a token and its score");
  EXPECT_EQ(refusal("/model/vocab/5/0", "e"),
            ".model.vocab[6][0] is \"e\", expected a token that is not listed twice");
  EXPECT_EQ(refusal("/pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}),
            ".pre_tokenizer is object, expected no ByteLevel step with a Unigram model");
  EXPECT_EQ(refusal("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA"}}),
            ".normalizer.precompiled_charsmap is no table of sentencepiece: it is not base64");
  EXPECT_EQ(
      refusal("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
      ".normalizer.precompiled_charsmap is no table of sentencepiece: it does not have the size that it "
      "states");
  Json document = unigram_document();
  document["pre_tokenizer"]["pretokenizers"][1]["prepend_scheme"] = "first";
  const auto replace = [](const char* how, const char* pattern, const char* content) {
    return Json{{"type", "Replace"}, {"pattern", {{how, pattern}}}, {"content", content}};
  };
  for (const Json& lost : {Json{{"type", "Nmt"}}, replace("String", "``", "\""), replace("Regex", "x+", "y"),
                           replace("String", "x", "")}) {
    document["normalizer"] = lost;
    EXPECT_EQ(
        message_of([&] { BpeTokenizer(document.dump(), "t"); }),
        "tokenizer 't': field tokenizer.json.normalizer is object, expected none that drops characters, or "
        "replaces several at once, as the prepend_scheme of Metaspace is \"first\"");
  }
  for (const Json& kept : {replace("String", "\xC3\xA9", "e"), replace("Regex", " {2,}", "\xE2\x96\x81")}) {
    document["normalizer"] = kept;
    EXPECT_NO_THROW(BpeTokenizer(document.dump(), "t"));
  }
}

TEST(Base64, ReadsWhatItWrites) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("foobar\xFF\xFE"), "Zm9vYmFy//4=");
  for (const std::string bytes : {"", "f", "fo", "foo", "foob", "\xFF\x80\x01"})
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  for (const char* text : {"Zg", "Zg=", "Zh==", "Zg==Zg==", "Z", "====", "Zm 9", "Zm\n9"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace echelon::data
