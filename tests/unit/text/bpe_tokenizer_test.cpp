#include "text/bpe/bpe_tokenizer.h"

#include "base/str.h"
#include "support/matches.h"
#include "support/tokenizer_json.h"
#include "text/bpe/pattern_syntax.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::ordered_json;
using namespace testing;  // NOLINT

Json added_token(const char* content, int id) {
  Json token = byte_level_document()["added_tokens"][0];
  token["content"] = content;
  token["id"] = id;
  return token;
}

/// What a document with `value` at the JSON pointer `where` is refused for, without the file's name.
std::string refusal_of(const char* where, const Json& value, Json document = byte_level_document()) {
  document[Json::json_pointer(where)] = value;
  const std::string text = message_of([&] { BpeTokenizer(document.dump(), "t"); });
  const std::string front = "tokenizer 't': field tokenizer.json";
  return text.starts_with(front) ? text.substr(front.size()) : text;
}

TEST(BpeTokenizer, MergesByRankInsideWords) {
  const BpeTokenizer tokenizer(byte_level_json(), "t");
  EXPECT_EQ(tokenizer.vocab_size(), 261);
  const auto id = [](const char* token) { return byte_level_document()["model"]["vocab"][token].get<int>(); };
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{id("t"), id("he"), id("Ġt"), id("he")}));
  EXPECT_EQ(tokenizer.encode("x[EOT]y"), (Ids{id("x"), 2, id("y")}));
  EXPECT_EQ(tokenizer.encode("").size(), 0U);
}

TEST(BpeTokenizer, GivesBackEveryText) {
  const BpeTokenizer tokenizer(byte_level_json(), "t");
  for (const std::string text : {"", " ", "a\n\n \tb", "größer 日本語 😀", "\x01\x7f", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFFz\xE2\x82")), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2}), "");
  EXPECT_EQ(message_of([&] { (void)tokenizer.decode(Ids{261}); }),
            "cannot decode token id 261: the tokenizer has ids 0 to 260");
}

TEST(BpeTokenizer, MergesCharactersWithoutByteLevel) {
  const BpeTokenizer tokenizer(characters_document().dump(), "t");
  EXPECT_EQ(tokenizer.encode("he the"), (Ids{8, 6, 4, 7, 9}));
  EXPECT_EQ(tokenizer.encode("hé日"), (Ids{8, 10, 11, 12, 13, 14}));
  EXPECT_EQ(tokenizer.encode("xyt"), (Ids{4, 3, 7}));      // unknown ones in a row are one
  EXPECT_EQ(tokenizer.encode("h[EOT]h"), (Ids{8, 2, 8}));  // a sign in front of each part
  EXPECT_EQ(tokenizer.decode(Ids{8, 10, 11, 2, 8}), "h\xC3\xA9 h");
  EXPECT_EQ(tokenizer.decode(Ids{10, 12, 13, 7}), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDt");
  Json document = characters_document();
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const BpeTokenizer mistral(document.dump(), "t");
  EXPECT_EQ(mistral.encode("h[EOT]h h"), (Ids{8, 2, 5, 8}));
  EXPECT_EQ(mistral.encode("[EOT]h"), (Ids{2, 5}));
}

TEST(BpeTokenizer, MakesNoSpecialTokenOfTypedText) {
  const auto ids_of = [](const Json& document, std::string_view text, std::vector<TextSpan> typed) {
    const BpeTokenizer tokenizer(document.dump(), "t");
    Ids ids;
    tokenizer.make_encoder()->encode_typed(text, typed, ids);
    return ids;
  };
  Json document = characters_document();
  EXPECT_EQ(ids_of(document, "h[EOT]h", {{1, 6}}), (Ids{8, 3, 5})) << "no sign within the text";
  EXPECT_EQ(ids_of(document, "h[EOT]h", {{0, 1}, {6, 7}}), (Ids{8, 2, 8}));
  EXPECT_EQ(ids_of(document, "h[EOT]h", {{5, 7}}), (Ids{8, 3, 5})) << "a part of it is typed";
  EXPECT_EQ(ids_of(document, "[EOT]h[EOT][EOT]", {{5, 11}}), (Ids{2, 8, 3, 2}));
  EXPECT_EQ(ids_of(document, "\xFF[EOT][EOT]", {{1, 6}}), (Ids{4, 3, 2}));
  document["added_tokens"][2]["normalized"] = true;  // and so found with the sign in front
  EXPECT_EQ(ids_of(document, "h [EOT] [EOT]", {}), (Ids{8, 2, 2}));
  EXPECT_EQ(ids_of(document, "h [EOT] [EOT]", {{2, 7}}), (Ids{8, 4, 3, 2}));
  document["added_tokens"][2]["special"] = false;
  EXPECT_EQ(ids_of(document, "h [EOT] [EOT]", {{2, 7}}), (Ids{8, 2, 2}));
}

TEST(BpeTokenizer, ALongTextOfCharactersIsCutWhereNoMergeSpans) {
  const BpeTokenizer tokenizer(characters_document().dump(), "t");
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "heh \xC3\xA9\xE6\x97\xA5x";
  const auto ids = tokenizer.encode(text);
  EXPECT_EQ(ids.size(), 100000U * 9 + 1);  // "▁h", "e", and then "he"
  EXPECT_EQ(std::vector(ids.begin(), ids.begin() + 10), (Ids{8, 6, 5, 4, 10, 11, 12, 13, 14, 3}));
}

TEST(BpeTokenizer, AByteOrderMarkIsRefusedByName) {
  EXPECT_EQ(message_of([] { (void)Tokenizer::from_bytes("\xEF\xBB\xBF" + byte_level_json(), "t"); }),
            "tokenizer 't': it begins with a byte order mark; save it as UTF-8 without one");
}

TEST(BpeTokenizer, FindsTheEndsOfADocument) {
  const auto ends = [](const Json& document) {
    const BpeTokenizer tokenizer(document.dump(), "t");
    return std::pair(tokenizer.bos_id(), tokenizer.eos_id());
  };
  Json document = byte_level_document();
  EXPECT_EQ(ends(document), std::pair(1, 2));  // by name
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json pad = {{"SpecialToken", {{"id", "[PAD]"}, {"type_id", 0}}}};
  const Json ids = {{"[PAD]", {{"id", "[PAD]"}, {"ids", {0}}, {"tokens", {"[PAD]"}}}}};
  document["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", {text, pad}}, {"special_tokens", ids}};
  EXPECT_EQ(ends(document), std::pair(-1, 0));  // the template says that there is no BOS
  document["post_processor"]["single"] = {text};
  EXPECT_EQ(ends(document), std::pair(-1, 2)) << "a template that adds nothing is one without BOS, too";
  document["post_processor"]["single"] = {pad, text};
  EXPECT_EQ(ends(document), std::pair(0, 2));  // an end is needed: by name
  document["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}}}};
  EXPECT_EQ(ends(document), std::pair(1, 2));
  document["added_tokens"] = Json::array();
  EXPECT_EQ(ends(document), std::pair(-1, -1));
}

TEST(BpeTokenizer, RefusesWhatItWouldDoOtherwise) {
  EXPECT_EQ(refusal_of("/model/type", "WordPiece"), ".model.type is \"WordPiece\", expected BPE or Unigram");
  EXPECT_EQ(refusal_of("/model/dropout", 0.1),
            ".model.dropout is 0.1, expected none: dropout would make token ids random");
  EXPECT_EQ(refusal_of("/model/end_of_word_suffix", "</w>"),
            ".model.end_of_word_suffix is \"</w>\", expected none");
  EXPECT_EQ(refusal_of("/normalizer", {{"type", "BertNormalizer"}}),
            ".normalizer.type is \"BertNormalizer\", expected NFC, NFD, NFKC, NFKD, Nmt, Lowercase, Strip, "
            "StripAccents, Prepend, Replace, Precompiled or Sequence: no other normalizer is supported");
  EXPECT_EQ(refusal_of("/pre_tokenizer", {{"type", "Whitespace"}}),
            ".pre_tokenizer.type is \"Whitespace\", expected Split, Digits, WhitespaceSplit, ByteLevel, "
            "Metaspace or a Sequence of them: no other pre-tokenizer is supported");
  EXPECT_EQ(refusal_of("/decoder/type", "WordPiece"),
            ".decoder.type is \"WordPiece\", expected ByteLevel, as the pre-tokenizer has such a step");
  EXPECT_EQ(refusal_of("/pre_tokenizer", nullptr),
            ".decoder.type is \"ByteLevel\", expected Replace, ByteFallback, Fuse, Strip, Metaspace or a "
            "Sequence of them, as the pre-tokenizer has no ByteLevel step");
}

TEST(BpeTokenizer, RefusesStepsAroundCharactersThatItWouldDoOtherwise) {
  const auto refusal = [](const char* where, const Json& value) {
    return refusal_of(where, value, characters_document());
  };
  EXPECT_EQ(refusal("/decoder/decoders/0/pattern", {{"Regex", " +"}}),
            ".decoder.decoders[0].pattern is object, expected a String: no regular expression is supported "
            "here");
  EXPECT_EQ(refusal("/normalizer/normalizers/0/prepend", ""),
            ".normalizer.normalizers[0].prepend is \"\", expected a text of 1 to 65536 bytes");
  EXPECT_EQ(refusal("/decoder/decoders/3/content", "ab"),
            ".decoder.decoders[3].content is \"ab\", expected one character");
  EXPECT_EQ(
      refusal("/decoder/decoders/2/type", "CTC"),
      ".decoder.decoders[2].type is \"CTC\", expected Replace, ByteFallback, Fuse, Strip, Metaspace or a "
      "Sequence of them, as the pre-tokenizer has no ByteLevel step");
  EXPECT_EQ(refusal("/decoder", nullptr), " has no field 'decoder'");
  const Json words{{"type", "Metaspace"}, {"replacement", "▁"}};
  EXPECT_EQ(
      refusal("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {words, words}}}),
      ".pre_tokenizer.pretokenizers[1].type is \"Metaspace\", expected nothing after the Metaspace step");
  Json scheme = words;
  scheme["prepend_scheme"] = "last";
  EXPECT_EQ(refusal("/pre_tokenizer", scheme),
            ".pre_tokenizer.prepend_scheme is \"last\", expected always, first or never");
  scheme["prepend_scheme"] = "first";
  scheme["add_prefix_space"] = false;
  EXPECT_EQ(refusal("/pre_tokenizer", scheme),
            ".pre_tokenizer.add_prefix_space is false, expected true, as prepend_scheme is not \"never\"");
}

TEST(BpeTokenizer, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(refusal_of("/model/vocab/he", -1),
            ".model.vocab['he'] is -1, expected a number from 0 to 16777215");
  EXPECT_EQ(refusal_of("/model/vocab", Json::array()),
            ".model.vocab is array, expected an object of 1 to 4000000 tokens");
  EXPECT_EQ(refusal_of("/model/merges/1", "Ġ t x"),
            ".model.merges[1] is \"\\u0120 t x\", expected two tokens and a space between them");
  EXPECT_EQ(refusal_of("/model/merges/1", Json::array({"x", "y"})),
            "tokenizer 't': model.merges[1] needs the token 'xy', which model.vocab does not hold");
  EXPECT_EQ(refusal_of("/model/unk_token", "[UNK]"),
            ".model.unk_token is \"[UNK]\", expected a token of model.vocab");
  EXPECT_EQ(refusal_of("/added_tokens/0/id", 5),
            ".added_tokens[0].id is 5, expected 0, which model.vocab says for '[PAD]'");
  EXPECT_EQ(refusal_of("/model/vocab/twin", 259),
            " gives the id 259 to 'he' and to 'twin', expected an id of its own for each token");
  Json holes = byte_level_document();  // the next free id of the package is one of the vocabulary
  holes["model"]["vocab"].erase("x");
  holes["added_tokens"].push_back(added_token("new", 260));
  EXPECT_MENTIONS(message_of([&] { BpeTokenizer(holes.dump(), "t"); }),
                  "gives the id 260 to 'new' and to 'Ġt'");
  EXPECT_EQ(refusal_of("/added_tokens/3", added_token("new", 262)),
            ".added_tokens[3].id is 262, expected 261, which is the next free one for 'new'");
  EXPECT_EQ(refusal_of("/added_tokens/3", added_token("[PAD]", 0)),
            ".added_tokens[3].content is \"[PAD]\", expected a token that is not listed twice");
  EXPECT_EQ(refusal_of("/pre_tokenizer/add_prefix_space", "no"),
            ".pre_tokenizer.add_prefix_space is \"no\", expected true or false");
}

TEST(BpeTokenizer, RefusesWhatIsNoTokenizer) {
  const auto refusal = [](const std::string& bytes) { return message_of([&] { BpeTokenizer(bytes, "t"); }); };
  EXPECT_EQ(
      refusal("{"),
      "tokenizer 't': not valid JSON at byte 2: syntax error while parsing object key - unexpected end of "
      "input; expected string literal");
  EXPECT_EQ(refusal("{}"), "tokenizer 't': field tokenizer.json has no field 'model'");
  EXPECT_EQ(refusal("{\"a\":" + std::string(100, '[')), "tokenizer 't': nested deeper than 32 levels");
  EXPECT_EQ(refusal("{" + std::string(std::size_t{64} << 20, ' ')),
            "tokenizer 't': 67108865 bytes, expected at most 67108864");
}

TEST(BpeTokenizer, BoundsTheWorkOfARegularExpression) {
  Json document = byte_level_document();
  document["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers",
                                {{{"type", "Split"},
                                  {"pattern", {{"Regex", "(a+)+[bc]"}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}},
                                 document["pre_tokenizer"]}}};
  const BpeTokenizer tokenizer(document.dump(), "t");
  EXPECT_EQ(tokenizer.encode("aab").size(), 3U);
  EXPECT_EQ(message_of([&] { (void)tokenizer.encode(std::string(1000, 'a')); }),
            "cannot split text by the regular expression of tokenizer 't': field "
            "tokenizer.json.pre_tokenizer.pretokenizers[0].pattern.Regex: match limit exceeded");
}

TEST(PatternSyntax, RefusesWhatTheEnginesReadUnlike) {
  for (const char* pattern :
       {"\\w+", "\\b", "a\\1", "\\p{Han}", "[a[b]]", "[a&&b]", "(?m)a", "\\R", "[[:alpha:]]", "x{,3}",
        "a{2}+", "[\\P{L}]", "\\xE9", "[]a]", "(?<n>a)", "(*UTF)", "a\\"}) {
    const std::string text = message_of([&] { (void)pcre2_syntax(pattern, "field f"); });
    EXPECT_EQ(text.rfind(str("field f holds the pattern '", pattern, "' with '"), 0), 0U) << text;
  }
  EXPECT_EQ(pcre2_syntax("a\\.\\h[^\\r\\n]\\u00e9(?i:'s)", ""), "a\\.[0-9a-fA-F][^\\r\\n]\\x{00e9}(?i:'s)");
}

}  // namespace
}  // namespace echelon::data
