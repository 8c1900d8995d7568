#include "text/tokenizer.h"

#include <algorithm>
#include <map>
#include <random>

#include "base/str.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_json.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/sentencepiece/sentencepiece_traits.h"
#include "text/tokenizer_digest.h"
#include "text/tokenizer_training.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using namespace testing;  // NOLINT

/// Source files of this project, tabs, newlines and other alphabets included.
std::vector<std::string> corpus() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_dir() + "/src/base")) {
    if (entry.is_regular_file()) texts.push_back(testing::read_bytes(entry.path()));
  }
  std::sort(texts.begin(), texts.end());
  texts.emplace_back(
      "def f(x):\n\tif x:\n\t\treturn  x  # größer als 0 – naïve\n\n\n    class Ünïcode: pass\r\n");
  return texts;
}

std::vector<std::string> lines_of(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      if (!line.empty()) lines.push_back(line);
    }
  }
  return lines;
}

/// Trained once for the whole binary.
const std::string& trained_model() {
  static const std::string model = data::train_tokenizer(lines_of(corpus()), 600);
  return model;
}

/// Every shape of text that a tokenizer may lose.
std::vector<std::string> difficult_texts() {
  return {"",
          " ",
          "   ",
          "\n",
          "\n\n\n",
          "\t\t",
          " leading and trailing ",
          "a\tb\n\n  c  \n\r\n",
          "def f():\n\treturn  1\n",
          "1234567890",
          "<s></s><unk><0x0A>",
          "\xE2\x96\x81",  // U+2581, the sign sentencepiece writes for a space
          "\xE2\x96\x81 a\xE2\x96\x81\xE2\x96\x81",
          "\xE2\x96\x85",  // U+2585, its sign for unknown
          "\xEF\xBB\xBFmark",
          "\xEF\xBF\xBD",
          "日本語 とても😀👩‍👩‍👧 e\xCC\x81 ﬁ Å",
          "مرحبا שלום",
          std::string("nul\0inside", 10),
          "\x01\x7f",
          "\xC2\x80\xF4\x8F\xBF\xBF"};
}

TEST(Tokenizer, GivesBackEveryText) {
  const data::SentencepieceTokenizer tokenizer(trained_model(), "test");
  for (const std::string& text : difficult_texts()) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << text;
  }
  for (const std::string& text : corpus()) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, ReplacesBytesThatAreNotUtf8) {
  const data::SentencepieceTokenizer tokenizer(trained_model(), "test");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFFz")), "a\xEF\xBF\xBDz");
}

TEST(Tokenizer, HasTheDocumentedIds) {
  const data::SentencepieceTokenizer tokenizer(trained_model(), "test");
  EXPECT_EQ(tokenizer.vocab_size(), 600);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.encode("\n").size(), 1U);
  EXPECT_EQ(tokenizer.encode("\t").size(), 1U);
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{1, 2}), "");
  EXPECT_EQ(tokenizer.digest(), tokenizer_digest_of(trained_model()));
  for (const std::int32_t id : {-1, 600, 1 << 30}) {
    EXPECT_EQ(message_of([&] { (void)tokenizer.decode(std::vector{id}); }),
              str("cannot decode token id ", id, ": the tokenizer has ids 0 to 599"));
  }
}

TEST(Tokenizer, RefusesWhatIsNoModel) {
  const TempDir dir;
  const auto path = dir / "t.model";
  const std::string refusal =
      str("tokenizer '", path.string(),
          "' is neither a sentencepiece model nor a tokenizer.json: name a .model file of sentencepiece "
          "or a tokenizer.json, or let `echelon prepare --train-tokenizer` make one");
  const auto load = [&] { (void)Tokenizer::load(path); };
  EXPECT_EQ(message_of(load),
            str("tokenizer '", path.string(),
                "' does not exist: name the tokenizer.model or tokenizer.json that `echelon prepare` wrote "
                "beside the token file"));
  write_bytes(path, "");
  EXPECT_EQ(message_of(load), str("tokenizer '", path.string(), "' is empty"));
  std::map<std::string, std::string> foreign{
      {"text", "this is no model at all\n"},
      {"zeros", std::string(100, '\0')},
      {"cut", trained_model().substr(0, trained_model().size() / 2)},
      {"empty message", std::string("\x12\x00", 2)},
  };
  for (const auto& [what, bytes] : foreign) {
    write_bytes(path, bytes);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(message_of(load), refusal) << what;
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << what;
  }
  EXPECT_MENTIONS(message_of([&] { (void)Tokenizer::load(dir.path()); }), "holds no tokenizer: expected");
}

TEST(Tokenizer, NeverCrashesOnADamagedModel) {
  std::mt19937 random(1);
  const std::string& model = trained_model();
  ::testing::internal::CaptureStderr();
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = model;
    // The first pieces and the settings behind the last one hold all the structure there is.
    for (int hits = 0; hits < 3; ++hits) {
      const std::size_t at = (random() & 1) != 0 ? random() % 200 : damaged.size() - 1 - random() % 200;
      damaged[at] = static_cast<char>(random());
    }
    try {
      (void)Tokenizer::from_bytes(damaged, "damaged")->encode("some text\n");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kData);
      ++refused;
    }
  }
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_GT(refused, 300 / 4);
}

TEST(SentencepieceEncoder, GivesTheIdsOfTheLibrary) {
  const data::SentencepieceTokenizer tokenizer(trained_model(), "test");
  const auto encoder = tokenizer.make_encoder();
  auto texts = corpus();
  for (const std::string& text : difficult_texts()) texts.push_back(text);
  std::mt19937 random(3);
  const std::string alphabet = "ab_.()=  \n\t0129\xC3\xA9#";
  for (int i = 0; i < 200; ++i) {
    std::string text;
    while (text.size() < 60) {
      const char c = alphabet[random() % alphabet.size()];
      text += c == '\xC3' || c == '\xA9' ? std::string("\xC3\xA9") : std::string(1, c);
    }
    texts.push_back(text);
  }
  for (int round = 0; round < 2; ++round) {  // the second round comes from memory
    for (const std::string& text : texts) {
      std::vector<std::int32_t> ids{7};
      encoder->encode(text, ids);
      std::vector<std::int32_t> expected;
      tokenizer.append(text, expected);
      ASSERT_EQ(ids.size(), expected.size() + 1) << text;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), ids.begin() + 1)) << text;
    }
  }
  // It would be no help if words were long.
  EXPECT_LT(tokenizer.word_end("return(x) + y;", 0), 14U);
}

TEST(TokenizerOfAFolder, IsTheJsonUnlessItWasMadeFromTheModelBesideIt) {
  const auto chosen = [](const std::map<std::string, std::string>& files) {
    const TempDir folder;
    for (const auto& [name, text] : files) write_bytes(folder / name, text);
    return find_tokenizer(folder.path()).filename().string();
  };
  const std::string& model = trained_model();
  EXPECT_EQ(chosen({}), "");
  EXPECT_EQ(chosen({{"spiece.model", model}}), "spiece.model");
  EXPECT_EQ(chosen({{"spiece.model", model}, {"tokenizer.model", model}}), "tokenizer.model");
  EXPECT_EQ(chosen({{"tokenizer.json", "{}"}}), "tokenizer.json");
  const std::string foreign = R"({"model": {"type": "BPE"}})";
  EXPECT_EQ(chosen({{"tokenizer.model", model}, {"tokenizer.json", foreign}}), "tokenizer.json");
  EXPECT_EQ(chosen({{"tokenizer.model", "damaged"}, {"tokenizer.json", foreign}}), "tokenizer.json");
  EXPECT_EQ(chosen({{"tokenizer.model", model}, {"tokenizer.json", "no json"}}), "tokenizer.json");
  const std::string unigram = R"({"model": {"type": "Unigram"}})";
  EXPECT_EQ(chosen({{"spiece.model", model}, {"tokenizer.json", unigram}}), "tokenizer.json");
  for (const bool sources : {false, true}) {
    const std::string made = data::tokenizer_json_of(model, sources);
    EXPECT_EQ(chosen({{"tokenizer.model", model}, {"tokenizer.json", made}}), "tokenizer.model");
  }
}

TEST(TokenizerTraining, IsAPureFunctionOfItsLines) {
  const auto lines = lines_of(corpus());
  EXPECT_EQ(data::train_tokenizer(lines, 600), trained_model());
  auto fewer = lines;
  fewer.resize(lines.size() / 2);
  EXPECT_NE(data::train_tokenizer(fewer, 600), trained_model());
}

TEST(TokenizerTraining, TakesFewerPiecesWhenTheTextHasNoMore) {
  const auto tokenizer = Tokenizer::from_bytes(data::train_tokenizer({"abc abc", "abd"}, 5000), "test");
  EXPECT_LT(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("abc xyz")), "abc xyz");
}

TEST(TokenizerTraining, SaysWhyItCannot) {
  std::string many;
  for (int c = 0; c < 400; ++c) many += {static_cast<char>(0xC4 + c / 64), static_cast<char>(0x80 + c % 64)};
  const std::string text = message_of([&] { (void)data::train_tokenizer({many}, 300); });
  EXPECT_EQ(text.rfind("cannot train a tokenizer of 300 pieces: ", 0), 0U) << text;
  EXPECT_MENTIONS(text, "raise --train-tokenizer to that or more");
}

TEST(SentencepieceTokenizer, RefusesTablesThatLeadOutOfThemselves) {
  const auto refusal = [](const std::string& bytes) {
    return message_of([&] { data::SentencepieceTokenizer(bytes, "m"); });
  };
  const auto model = [] {
    return testing::SentencepieceModel()
        .piece("<unk>", 0, data::SentencepiecePiece::Type::kUnknown)
        .piece("b", -1);
  };
  std::string table = testing::normalizer_table({{"a", "b"}});
  const data::SentencepieceTokenizer sound(model().table(table).denormalizer_table(table).bytes(), "m");
  EXPECT_EQ(sound.encode("a"), sound.encode("b"));
  testing::set_unit(table, testing::unit_of(table, "a"), 0x1FFFFFU << 10 | 1U << 8 | 'a');
  EXPECT_EQ(refusal(model().table(table).bytes())
                .rfind("tokenizer 'm' cannot be used: the table of its normalizer", 0),
            0U);
  EXPECT_EQ(refusal(model().denormalizer_table(table).bytes())
                .rfind("tokenizer 'm' cannot be used: the table of its denormalizer", 0),
            0U);
}

TEST(SentencepieceTokenizer, RefusesMoreNestedSymbolsThanTheLibraryHasRoomFor) {
  testing::SentencepieceModel model;
  model.piece("<unk>", 0, data::SentencepiecePiece::Type::kUnknown).piece("b", -1);
  for (std::size_t length = 1; length <= 64; ++length)
    model.piece(std::string(length, 'x'), 0, data::SentencepiecePiece::Type::kUserDefined);
  const data::SentencepieceTokenizer most(model.bytes(), "m");
  EXPECT_EQ(most.encode(std::string(64, 'x')).size(), 2U);  // the space in front, and all of it
  model.piece(std::string(65, 'x'), 0, data::SentencepiecePiece::Type::kUserDefined);
  EXPECT_MENTIONS(message_of([&] { data::SentencepieceTokenizer(model.bytes(), "m"); }), "begin one another");
}

TEST(SentencepieceTokenizer, RefusesASymbolWithoutALetter) {
  using Type = data::SentencepiecePiece::Type;
  testing::SentencepieceModel model;
  model.piece("<unk>", 0, Type::kUnknown).piece("b", -1).piece("", 0, Type::kUserDefined);
  EXPECT_MENTIONS(message_of([&] { data::SentencepieceTokenizer(model.bytes(), "m"); }), "is neither");
}

TEST(DecodeAny, ShowsIdsThatTheTokenizerDoesNotHave) {
  const data::SentencepieceTokenizer tokenizer(trained_model(), "test");
  const auto ids = tokenizer.encode("one two");
  const auto size = static_cast<std::int32_t>(tokenizer.vocab_size());
  EXPECT_EQ(tokenizer.decode_any(ids), "one two");
  EXPECT_EQ(tokenizer.decode_any({}), "");
  std::vector<std::int32_t> more{size};
  more.insert(more.end(), ids.begin(), ids.end());
  more.insert(more.end(), {-1, size + 7});
  EXPECT_EQ(tokenizer.decode_any(more), "\xEF\xBF\xBDone two\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(SentencepieceTraits, RefuseWhatAnotherReaderMayUnderstandDifferently) {
  EXPECT_TRUE(data::read_traits(std::string("\x1A\x02\x12\x00", 4)).has_value());
  for (const std::string& bad : {
           std::string("\x1A\x02\x10\x00", 4),                      // the table as a number
           std::string("\x18\x00", 2),                              // the normalizer as a number
           std::string("\x9A\x80\x80\x80\x80\x00\x02\x12\x00", 9),  // a tag of six bytes
           std::string("\x9A\x80\x80\x80\x10\x02\x12\x00", 8),      // a tag of more than 32 bits
           std::string("\x02\x00", 2),                              // field 0
       }) {
    EXPECT_FALSE(data::read_traits(bad).has_value());
  }
}

TEST(SentencepieceTraits, AreReadFromTheModel) {
  const auto traits = data::read_traits(trained_model());
  ASSERT_TRUE(traits.has_value());
  EXPECT_TRUE(traits->verbatim_bpe());
  // trainer_spec {model_type: UNIGRAM}, normalizer_spec {add_dummy_prefix: true}
  const std::string unigram("\x12\x02\x18\x01\x1A\x02\x18\x01", 8);
  const auto other = data::read_traits(unigram);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->type, data::SentencepieceTraits::Type::kUnigram);
  EXPECT_TRUE(other->add_dummy_prefix);
  EXPECT_FALSE(other->verbatim_bpe());
  for (const std::string bad : {"\x12\x05\x18", "\x12", "\x0F", "\x1A\x02\x18\xFF"}) {
    EXPECT_FALSE(data::read_traits(bad).has_value());
  }
}

}  // namespace
}  // namespace echelon
