#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/str.h"
#include "data/tokens/document_index.h"
#include "data/tokens/pair_loader.h"
#include "unit/data/token_data.h"

namespace echelon {
namespace {

using namespace testing;  // NOLINT

using Ids = std::vector<std::int64_t>;

/// A file of pairs: pair i has sources[i] tokens 10, 11, ... and targets[i] tokens 50, 51, ...; each ends
/// with 1.
void write_pairs(const std::filesystem::path& path, const Ids& sources, const Ids& targets) {
  TokenFileWriter writer(path, {.vocab_size = 300, .flags = kDocumentsArePairs | kDocumentsEndWithEos});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (const auto& [count, first] : {std::pair(sources[i], 10), std::pair(targets[i], 50)}) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
      std::iota(ids.begin(), ids.end(), first);
      ids.back() = 1;
      writer.add_document(ids);
    }
  }
  writer.finish();
}

using DocumentPacking = InTempDir;

TEST_F(DocumentPacking, KeepsDocumentsOfAWindowApart) {
  write_counting_file(dir / "a.tok", {3, 1, 7, 2, 8}, 300);  // borders at 3, 4, 11, 13
  const auto stream = make_loader(in_order(dir / "a.tok", 5, Packing::kStream), 300, 1)->read(0, 4);
  const auto batch = make_loader(in_order(dir / "a.tok", 5, Packing::kDocuments), 300, 1)->read(0, 4);
  EXPECT_EQ(batch.ids, stream.ids);
  EXPECT_EQ(batch.sample_lengths, Ids(4, 5));
  EXPECT_EQ(batch.lengths, (Ids{3, 1, 1, 5, 1, 2, 2, 5}));
  // The last token of a document predicts nothing, at the end of a window too (token 10 would see 11).
  EXPECT_EQ(batch.targets, (Ids{1, 2, -1, -1, 5, 6, 7, 8, 9, 10, -1, 12, -1, 14, 15, 16, 17, 18, 19, 20}));
}

TEST_F(DocumentPacking, TellsABorderRightBehindAWindow) {
  write_counting_file(dir / "a.tok", {5, 6}, 300);
  const auto batch = make_loader(in_order(dir / "a.tok", 5, Packing::kDocuments), 300, 1)->read(0, 2);
  EXPECT_EQ(batch.lengths, (Ids{5, 5}));
  EXPECT_EQ(batch.targets, (Ids{1, 2, 3, 4, -1, 6, 7, 8, 9, 10}));
}

TEST_F(DocumentPacking, MakesEveryDocumentASample) {
  write_counting_file(dir / "a.tok", {3, 1, 7}, 300);
  const auto loader = make_loader(in_order(dir / "a.tok", 4, Packing::kPad), 300, 1);
  EXPECT_EQ(loader->samples_per_epoch(), 3);
  const auto batch = loader->read(0, 4);  // the first one again
  EXPECT_EQ(batch.lengths, (Ids{2, 1, 4, 2}));
  EXPECT_EQ(batch.ids, (Ids{0, 1, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(batch.targets, (Ids{1, 2, -1, 5, 6, 7, 8, 1, 2}));
}

TEST_F(DocumentPacking, RefusesAFileThatTeachesNothing) {
  write_counting_file(dir / "a.tok", std::vector<int>(40, 1), 300);
  for (const Packing packing : {Packing::kDocuments, Packing::kPad}) {
    const std::string expected =
        str(" has nothing to predict: its 40 documents have one token each, and data.packing is ",
            word_of(packing), ": prepare longer documents, or set data.packing: stream");
    DataOptions options = in_order(dir / "a.tok", 5, packing);
    EXPECT_EQ(refused(options), expected);
    options.validation.path = options.path;
    EXPECT_MENTIONS(message_of([&] { (void)make_validation_loader(options, 300, 1); }), expected);
  }
  EXPECT_EQ(make_loader(in_order(dir / "a.tok", 5, Packing::kStream), 300, 1)->samples_per_epoch(), 7);
  write_counting_file(dir / "b.tok", {1, 1, 2, 1, 1, 1}, 300);  // one target is enough
  EXPECT_EQ(make_loader(in_order(dir / "b.tok", 5, Packing::kPad), 300, 1)->samples_per_epoch(), 6);
}

TEST(DocumentIndex, FindsTheBordersThatTheFileHas) {
  const TempDir dir;
  std::vector<int> lengths;
  for (int i = 0; i < 7000; ++i) lengths.push_back(1 + i * i % 7);
  write_counting_file(dir / "a.tok", lengths, 60000);
  const TokenFile file(dir / "a.tok");
  const DocumentIndex index(file);
  std::set<std::uint64_t> borders;
  for (std::uint64_t i = 0; i < file.document_count(); ++i) borders.insert(file.document(i).end);
  for (std::uint64_t begin = 0; begin < file.token_count(); begin += 97) {
    for (const std::uint64_t length : {1U, 2U, 40U, 15000U}) {
      const std::uint64_t end = std::min(begin + length, file.token_count());
      Ids expected;
      std::uint64_t from = begin;
      for (auto next = borders.upper_bound(begin); from < end; ++next) {
        expected.push_back(static_cast<std::int64_t>(std::min(*next, end) - from));
        from = std::min(*next, end);
      }
      ASSERT_EQ(index.parts(begin, end), expected) << begin << " to " << end;
    }
  }
}

using Pairs = InTempDir;

TEST_F(Pairs, AreCutAndKeepTheirEos) {
  write_pairs(dir / "p.tok", {3, 6, 5}, {2, 5, 3});
  DataOptions options = in_order(dir / "p.tok", 5, Packing::kStream);
  options.kind = DataKind::kPairs;
  options.target_len = 3;
  const auto loader = make_loader(options, 300, 1);
  EXPECT_EQ(loader->samples_per_epoch(), 3);
  const auto batch = loader->read(0, 3);
  EXPECT_EQ(batch.lengths, (Ids{3, 5, 5}));
  EXPECT_EQ(batch.ids, (Ids{10, 11, 1, 10, 11, 12, 13, 1, 10, 11, 12, 13, 1}));
  EXPECT_EQ(batch.target_lengths, (Ids{2, 3, 3}));
  EXPECT_EQ(batch.targets, (Ids{50, 1, 50, 51, 1, 50, 51, 1}));
}

TEST_F(Pairs, AreNotTakenForDocumentsNorDocumentsForPairs) {
  write_pairs(dir / "p.tok", {3}, {2});
  write_counting_file(dir / "a.tok", {30}, 300);
  DataOptions options = in_order(dir / "p.tok", 4, Packing::kStream);
  EXPECT_EQ(refused(options),
            " holds pairs of texts, but data.kind is tokens: set data.kind: pairs, or name another file");
  options = in_order(dir / "a.tok", 4, Packing::kStream);
  options.kind = DataKind::kPairs;
  EXPECT_EQ(refused(options),
            " holds documents, but data.kind is pairs: set data.kind: tokens, or name another file");
}

TEST_F(Pairs, CanBeMadeUp) {
  const DataOptions options{
      .kind = DataKind::kSyntheticPairs, .seq_len = 6, .target_len = 4, .full_length = true};
  const SyntheticPairLoader expected({.source = 6, .target = 4, .vocabulary = 300, .full_length = true}, 1);
  const auto loader = make_loader(options, 300, 1);
  EXPECT_EQ(loader->fingerprint(), expected.fingerprint());
  EXPECT_EQ(loader->read(7, 2).ids, expected.read(7, 2).ids);
  EXPECT_EQ(loader->read(7, 2).targets, expected.read(7, 2).targets);
}

/// Three files of documents of one token and one id each file, so that an id tells its source.
class Mixture : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.seq_len = 8;
    options_.packing = Packing::kPad;
    for (int source = 0; source < 3; ++source) {
      const auto path = dir_ / str("s", source, ".tok");
      TokenFileWriter writer(path, {.vocab_size = 300});
      for (std::int32_t i = 0; i < kSizes[static_cast<std::size_t>(source)]; ++i)
        writer.add_document(std::vector<std::int32_t>{source, i});
      writer.finish();
      options_.mixture.emplace_back(path.string(), kWeights[static_cast<std::size_t>(source)]);
    }
  }

  static constexpr std::array<int, 3> kSizes{50, 7, 120};
  static constexpr std::array<double, 3> kWeights{0.5, 0.2, 0.3};
  TempDir dir_;
  DataOptions options_;
};

TEST_F(Mixture, GivesEachSourceItsExactShare) {
  const auto loader = make_loader(options_, 300, 5);
  EXPECT_EQ(loader->samples_per_epoch(), 177);
  std::map<std::int64_t, int> counts;
  for (std::int64_t round = 0; round < 40; ++round) {
    const auto batch = loader->read(round * 10, 10);
    for (const std::int64_t id : batch.ids) ++counts[id];
    EXPECT_EQ(counts[0], (round + 1) * 5);
    EXPECT_EQ(counts[1], (round + 1) * 2);
    EXPECT_EQ(counts[2], (round + 1) * 3);
  }
}

// Shares that are exact only after 1,000,000 samples.
TEST_F(Mixture, OfFineWeightsRepeatsNoSampleOfAnEpochEither) {
  constexpr std::array<double, 3> kFine{0.333333, 0.123457, 0.54321};
  for (std::size_t source = 0; source < 3; ++source) options_.mixture[source].second = kFine[source];
  for (const bool shuffle : {true, false}) {
    options_.shuffle = shuffle;
    const auto loader = make_loader(options_, 300, 5);
    std::map<std::pair<std::int64_t, std::int64_t>, int> times;
    std::array<int, 3> drawn{};
    for (int samples = 1000; samples <= 5000; samples += 1000) {
      const auto batch = loader->read(samples - 1000, 1000);
      for (std::size_t i = 0; i < batch.ids.size(); ++i) {
        ++times[{batch.ids[i], batch.targets[i]}];
        ++drawn[static_cast<std::size_t>(batch.ids[i])];
      }
      for (std::size_t source = 0; source < 3; ++source)
        EXPECT_NEAR(drawn[source], kFine[source] * samples, 2);
      for (const auto& [sample, count] : times) {
        const auto source = static_cast<std::size_t>(sample.first);
        EXPECT_NEAR(count, drawn[source] / kSizes[source], 1) << source << " after " << samples;
      }
    }
  }
}

TEST_F(Mixture, InOrderDrawsFilesInOrder) {
  options_.shuffle = false;
  const auto batch = make_loader(options_, 300, 5)->read(0, 100);
  std::array<std::int64_t, 3> next{};
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const auto source = static_cast<std::size_t>(batch.ids[i]);
    EXPECT_EQ(batch.targets[i], next[source]++ % kSizes[source]);
  }
}

TEST_F(Mixture, RunsThroughEachSourceInEpochsOfItsOwn) {
  const auto batch = make_loader(options_, 300, 5)->read(0, 1000);
  std::array<Ids, 3> drawn;
  for (std::size_t i = 0; i < batch.ids.size(); ++i)
    drawn[static_cast<std::size_t>(batch.ids[i])].push_back(batch.targets[i]);
  // Samples of a round come in any order, so epochs are told by how often each was drawn.
  for (std::size_t source = 0; source < 3; ++source) {
    std::map<std::int64_t, int> times;
    for (const std::int64_t sample : drawn[source]) ++times[sample];
    EXPECT_EQ(times.size(), static_cast<std::size_t>(kSizes[source]));
    const auto whole = static_cast<int>(drawn[source].size()) / kSizes[source];
    for (const auto& [sample, count] : times) {
      EXPECT_GE(count, whole) << source;
      EXPECT_LE(count, whole + 1) << source;
    }
    EXPECT_FALSE(std::is_sorted(drawn[source].begin(), drawn[source].begin() + kSizes[source] - 2));
  }
}

TEST_F(Mixture, HasAFingerprintOfFilesWeightsAndSeed) {
  std::set<std::uint32_t> seen;
  const auto add = [&](const DataOptions& options, std::uint64_t seed) {
    return seen.insert(make_loader(options, 300, seed)->fingerprint()).second;
  };
  EXPECT_TRUE(add(options_, 5));
  EXPECT_FALSE(add(options_, 5));
  EXPECT_TRUE(add(options_, 6));
  DataOptions other = options_;
  other.mixture[0].second = 0.6;
  EXPECT_TRUE(add(other, 5));
  other.mixture.pop_back();
  EXPECT_TRUE(add(other, 5));
  for (auto& [path, weight] : other.mixture) weight += 1e-9;  // less than a share's unit
  EXPECT_FALSE(add(other, 5));
}

TEST_F(Mixture, RefusesWhatDoesNotGoTogether) {
  options_.mixture[1].second = 0;
  EXPECT_EQ(message_of([&] { (void)make_loader(options_, 300, 1); }, Code::kUsage),
            str("data.mixture: the weight of '", options_.mixture[1].first,
                "' is 0, expected 0.000001 to 1000000"));
  options_.mixture[1].second = 1;
  for (int source = 0; source < 2; ++source) {
    TokenFileWriter writer(options_.mixture[static_cast<std::size_t>(source)].first,
                           {.vocab_size = 300, .tokenizer_digest = 7U + static_cast<unsigned>(source)});
    writer.add_document(std::vector<std::int32_t>{1, 2});
    writer.finish();
  }
  EXPECT_EQ(message_of([&] { (void)make_loader(options_, 300, 1); }),
            str("data.mixture: '", options_.mixture[1].first, "' was made with another tokenizer than '",
                options_.mixture[0].first, "': prepare all files with the same one (--tokenizer)"));
}

/// What a job of `ranks` reads in steps [begin, end) of `global` samples: the first id and target of each
/// sample.
std::vector<std::pair<std::int64_t, std::int64_t>> ledger(const DataOptions& options, std::int64_t ranks,
                                                          std::int64_t begin, std::int64_t end,
                                                          std::int64_t global) {
  std::vector<std::pair<std::int64_t, std::int64_t>> samples;
  for (std::int64_t step = begin; step < end; ++step) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const auto loader = make_loader(options, 60000, 11);  // each rank opens its own
      const auto batch = loader->read(step * global + rank * (global / ranks), global / ranks);
      for (std::size_t i = 0; i < batch.ids.size(); i += static_cast<std::size_t>(batch.lengths[0]))
        samples.emplace_back(batch.ids[i], batch.targets[i]);
    }
  }
  return samples;
}

TEST_F(Mixture, IsTheSameForAnyRanksAndAfterResumingWithOthers) {
  for (const Packing packing : {Packing::kPad, Packing::kStream}) {
    options_.packing = packing;
    const auto whole = ledger(options_, 1, 0, 30, 12);
    EXPECT_EQ(whole.size(), 360U);
    for (const std::int64_t ranks : {2, 3, 4}) EXPECT_EQ(ledger(options_, ranks, 0, 30, 12), whole);
    auto resumed = ledger(options_, 4, 0, 7, 12);
    for (const auto& sample : ledger(options_, 3, 7, 30, 12)) resumed.push_back(sample);
    EXPECT_EQ(resumed, whole) << word_of(packing);
  }
}

TEST(SampleLedger, HoldsEverySampleOnceAnEpochOverResumesAtOtherWorldSizes) {
  const TempDir dir;
  write_counting_file(dir / "a.tok", std::vector<int>(2400, 2), 60000);
  DataOptions options = in_order(dir / "a.tok", 2, Packing::kPad);
  options.shuffle = true;

  auto samples = ledger(options, 4, 0, 50, 24);  // two epochs of 2400 samples, on 4, 3 and 2 ranks
  for (const auto& sample : ledger(options, 3, 50, 130, 24)) samples.push_back(sample);
  for (const auto& sample : ledger(options, 2, 130, 200, 24)) samples.push_back(sample);
  ASSERT_EQ(samples.size(), 4800U);
  const std::set first(samples.begin(), samples.begin() + 2400);
  const std::set second(samples.begin() + 2400, samples.end());
  EXPECT_EQ(first.size(), 2400U);
  EXPECT_EQ(second, first);
  EXPECT_NE(std::vector(samples.begin(), samples.begin() + 2400),
            std::vector(samples.begin() + 2400, samples.end()));
}

}  // namespace
}  // namespace echelon
