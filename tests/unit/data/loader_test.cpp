#include "data/loader.h"

#include <algorithm>
#include <set>

#include "base/str.h"
#include "text/tokenizer_digest.h"
#include "unit/data/token_data.h"

namespace echelon {
namespace {

using namespace testing;  // NOLINT

constexpr std::int64_t kVocabulary = 60000;

DataOptions options_for(const std::filesystem::path& path, std::int64_t seq_len) {
  return {.path = path.string(), .seq_len = seq_len};
}

/// The first id of every row; a counting file makes it tell the window.
std::vector<std::int64_t> first_ids(const SampleBatch& batch) {
  std::vector<std::int64_t> firsts;
  std::size_t at = 0;
  for (const std::int64_t length : batch.lengths) {
    firsts.push_back(batch.ids[at]);
    at += static_cast<std::size_t>(length);
  }
  return firsts;
}

using TokenLoader = InTempDir;

TEST_F(TokenLoader, CutsTheStreamIntoOverlappingWindows) {
  write_counting_file(dir / "a.tok", {3, 1, 37}, 300);  // 41 tokens: windows of 4+1 at 0, 4, ..., 36
  const auto loader = make_loader(in_order(dir / "a.tok", 4), 300, 1);
  EXPECT_EQ(loader->samples_per_epoch(), 10);
  const SampleBatch batch = loader->read(0, 10);
  EXPECT_EQ(batch.lengths, std::vector<std::int64_t>(10, 4));
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(batch.ids[i], static_cast<std::int64_t>(i));
    EXPECT_EQ(batch.targets[i], static_cast<std::int64_t>(i) + 1);
  }
}

TEST_F(TokenLoader, LeavesOutOnlyThePartOfAWindowAtTheEnd) {
  for (const auto& [tokens, samples] : {std::pair{5, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}}) {
    write_counting_file(dir / "a.tok", {tokens}, 300);
    EXPECT_EQ(make_loader(options_for(dir / "a.tok", 4), 300, 1)->samples_per_epoch(), samples);
  }
}

TEST_F(TokenLoader, ReadsEverySampleOnceAnEpochInANewOrder) {
  write_counting_file(dir / "a.tok", {50001}, kVocabulary);
  const auto loader = make_loader(options_for(dir / "a.tok", 50), kVocabulary, 3);
  const std::int64_t n = loader->samples_per_epoch();
  ASSERT_EQ(n, 1000);
  std::vector<std::int64_t> previous;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto firsts = first_ids(loader->read(epoch * n, n));
    EXPECT_EQ(std::set(firsts.begin(), firsts.end()).size(), 1000U);
    EXPECT_FALSE(std::is_sorted(firsts.begin(), firsts.end()));
    EXPECT_NE(firsts, previous);
    previous = firsts;
  }
}

TEST_F(TokenLoader, ReadsTheSameSamplesInAnyPortions) {
  write_counting_file(dir / "a.tok", {2001}, kVocabulary);
  const auto loader = make_loader(options_for(dir / "a.tok", 20), kVocabulary, 9);
  const SampleBatch whole = loader->read(0, 250);  // two and a half epochs of 100
  for (const std::int64_t portion : {1, 3, 7, 120}) {
    std::vector<std::int64_t> ids;
    for (std::int64_t at = 0; at < 250; at += portion) {
      const SampleBatch part = loader->read(at, std::min(portion, 250 - at));
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    }
    EXPECT_EQ(ids, whole.ids) << portion;
  }
}

TEST_F(TokenLoader, KeepsItsOrderBetweenReleases) {
  // A resumed run reads on where it stopped: another order would repeat and skip samples without a word.
  write_counting_file(dir / "a.tok", {101}, 300);
  const auto loader = make_loader(options_for(dir / "a.tok", 10), 300, 1234);
  EXPECT_EQ(first_ids(loader->read(0, 20)),
            (std::vector<std::int64_t>{90, 0,  60, 20, 30, 40, 70, 50, 10, 80,
                                       10, 20, 90, 50, 70, 80, 40, 30, 0,  60}));
}

TEST_F(TokenLoader, TellsDataOrdersApartByFingerprint) {
  write_counting_file(dir / "a.tok", {1000}, 300);
  write_counting_file(dir / "b.tok", {999, 1}, 300);  // the same tokens, other documents
  const DataOptions base = options_for(dir / "a.tok", 10);
  const DataOptions unshuffled = in_order(dir / "a.tok", 10);

  DataOptions synthetic = base;
  synthetic.kind = DataKind::kSyntheticTokens;
  const std::vector<std::uint32_t> all{make_loader(base, 300, 1)->fingerprint(),
                                       make_loader(base, 300, 2)->fingerprint(),
                                       make_loader(unshuffled, 300, 1)->fingerprint(),
                                       make_loader(options_for(dir / "a.tok", 11), 300, 1)->fingerprint(),
                                       make_loader(options_for(dir / "b.tok", 10), 300, 1)->fingerprint(),
                                       make_loader(synthetic, 300, 1)->fingerprint(),
                                       make_loader(synthetic, 301, 1)->fingerprint()};
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(make_loader(base, 300, 1)->fingerprint(), all[0]);
  EXPECT_EQ(make_loader(base, 400, 1)->fingerprint(), all[0]);  // a larger model reads the same data
  EXPECT_EQ(make_loader(unshuffled, 300, 2)->fingerprint(),
            all[2]);  // without shuffling the seed has no part
}

TEST_F(TokenLoader, RefusesDataThatDoesNotFit) {
  const auto path = dir / "a.tok";
  const auto refusal = [&](const DataOptions& options, std::int64_t vocab, Code code) {
    return message_of([&] { (void)make_loader(options, vocab, 1); }, code);
  };
  EXPECT_EQ(refused(options_for(path, 4)),
            " does not exist: make it with `echelon prepare` or correct its path (data.path, "
            "data.validation.path)");
  write_counting_file(path, {100}, 300);
  EXPECT_EQ(refused(options_for(path, 100)),
            " holds 100 tokens, fewer than one sample of data.seq_len + 1 = 101: prepare more text or lower "
            "data.seq_len");
  EXPECT_EQ(
      refused(options_for(path, 4), 99),
      " has ids up to 99 of a vocabulary of 300, but model.vocab_size is 99: set model.vocab_size to 300 "
      "or more");
  EXPECT_EQ(make_loader(options_for(path, 4), 100, 1)->samples_per_epoch(), 24) << "no text has the others";
  EXPECT_EQ(refusal(options_for("", 4), 300, Code::kData),
            "data.path is empty: name a token file made by `echelon prepare`");
  EXPECT_EQ(refusal(options_for(path, 0), 300, Code::kUsage), "data.seq_len is 0, expected 1 to 2^30");
  EXPECT_EQ(refusal(options_for(path, 4), 1, Code::kUsage), "model.vocab_size is 1, expected 2 to 2^31");
  const auto loader = make_loader(options_for(path, 4), 300, 1);
  EXPECT_EQ(
      message_of([&] { (void)loader->read(-1, 2); }, Code::kInternal),
      "internal error: a read of 2 samples from sample -1; this is a fault of Echelon: please report it");
}

TEST_F(TokenLoader, RefusesTheWrongTokenizer) {
  write_bytes(dir / "tokenizer.model", "one model");
  write_bytes(dir / "other.model", "two model");
  const auto digest = tokenizer_digest(dir / "tokenizer.model");
  write_counting_file(dir / "a.tok", {100}, 300, digest);
  DataOptions options = options_for(dir / "a.tok", 4);
  EXPECT_EQ(tokenizer_path(options), (dir / "tokenizer.model").string());
  EXPECT_NO_THROW((void)make_loader(options, 300, 1));
  options.tokenizer = (dir / "other.model").string();
  EXPECT_EQ(tokenizer_path(options), options.tokenizer);
  const std::string expected = str(" was made with another tokenizer than '", options.tokenizer,
                                   "': name the right one in data.tokenizer or prepare the data again");
  EXPECT_EQ(refused(options), expected);
  options.validation.path = options.path;
  EXPECT_MENTIONS(message_of([&] { (void)make_validation_loader(options, 300, 1); }), expected);
  // Validation data have the tokenizer of the training data, not the one that lies beside them.
  write_bytes(dir / "v/tokenizer.model", "two model");
  write_counting_file(dir / "v/v.tok", {100}, 300, tokenizer_digest(dir / "v/tokenizer.model"));
  DataOptions two = options_for(dir / "a.tok", 4);
  two.validation.path = (dir / "v/v.tok").string();
  EXPECT_EQ(message_of([&] { (void)make_validation_loader(two, 300, 1); }),
            str("token file '", two.validation.path, "' was made with another tokenizer than '",
                (dir / "tokenizer.model").string(),
                "': name the right one in data.tokenizer or prepare the data again"));
  options.tokenizer = (dir / "none.model").string();
  EXPECT_EQ(message_of([&] { (void)make_loader(options, 300, 1); }),
            str("tokenizer '", options.tokenizer,
                "' does not exist: name the tokenizer.model or tokenizer.json that `echelon prepare` wrote "
                "beside the token file"));
  write_bytes(dir / "none.model", "");
  EXPECT_EQ(message_of([&] { (void)make_loader(options, 300, 1); }),
            str("tokenizer '", options.tokenizer, "' is empty"));
  std::filesystem::remove(dir / "tokenizer.model");
  EXPECT_EQ(tokenizer_path(options_for(dir / "a.tok", 4)), "");
}

TEST_F(TokenLoader, ReportsDamageWhenItIsRead) {
  write_counting_file(dir / "a.tok", {20000}, 300);
  std::string bytes = testing::read_bytes(dir / "a.tok");
  bytes[128 + 20000] ^= 4;
  write_bytes(dir / "a.tok", bytes);
  const DataOptions options = in_order(dir / "a.tok", 100);

  const auto loader = make_loader(options, 300, 1);
  EXPECT_NO_THROW((void)loader->read(0, 81));  // tokens 0 to 8100 of block 0, which ends at token 8192
  EXPECT_EQ(message_of([&] { (void)loader->read(81, 1); }),
            str("token file '", options.path,
                "' is damaged: block 1 (bytes 16512 to 32896) does not match its "
                "checksum; copy or prepare it again"));
}

TEST(ValidationLoader, ReadsInFileOrder) {
  const TempDir dir;
  write_counting_file(dir / "v.tok", {41}, 300);
  DataOptions options = options_for(dir / "none.tok", 4);
  EXPECT_EQ(make_validation_loader(options, 300, 1), nullptr);
  options.validation.path = (dir / "v.tok").string();
  const auto loader = make_validation_loader(options, 300, 1);
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(first_ids(loader->read(0, 12)),
            (std::vector<std::int64_t>{0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 0, 4}));
}

TEST(SyntheticTokens, ArePureFunctionsOfSampleAndPosition) {
  DataOptions options{.kind = DataKind::kSyntheticTokens, .seq_len = 64};

  const auto loader = make_loader(options, 1000, 5);
  const SampleBatch whole = loader->read(100, 50);
  EXPECT_EQ(whole.ids.size(), 50U * 64);
  const SampleBatch part = loader->read(110, 2);
  EXPECT_TRUE(std::equal(part.ids.begin(), part.ids.end(), whole.ids.begin() + 10 * 64));
  EXPECT_NE(make_loader(options, 1000, 6)->read(100, 50).ids, whole.ids);
  options.seq_len = 20;
  const SampleBatch shorter = make_loader(options, 1000, 5)->read(110, 1);  // the same sample, cut
  EXPECT_TRUE(std::equal(shorter.ids.begin(), shorter.ids.end(), part.ids.begin()));
  EXPECT_EQ(tokenizer_path(options), "");
}

TEST(SyntheticTokens, StayBelowTheVocabularyAndHaveStructure) {
  const DataOptions options{.kind = DataKind::kSyntheticTokens, .seq_len = 500};

  for (const std::int64_t vocab : {std::int64_t{2}, std::int64_t{1000}, std::int64_t{1} << 31}) {
    const SampleBatch batch = make_loader(options, vocab, 5)->read((std::int64_t{1} << 40) - 50, 100);
    int continued = 0;
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      ASSERT_GE(batch.ids[i], 0);
      ASSERT_LT(batch.ids[i], vocab);
      if (i % 500 != 0) continued += batch.ids[i] == (batch.ids[i - 1] + 1) % vocab;
    }
    if (vocab > 2) {
      EXPECT_NEAR(continued / 50000.0, 0.5, 0.02);
    }
  }
}

}  // namespace
}  // namespace echelon
