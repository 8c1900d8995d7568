#include <map>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "data/prepare/prepare.h"
#include "support/faulty_disk.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using namespace testing;  // NOLINT
using Files = std::map<std::string, std::string>;

/// Work that ends early, and goes on, until it is done.
class PrepareResume : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.sources = {(dir_ / "in").string()};
    options_.train_vocab_size = 310;
    options_.train_bytes = 20000;
    options_.threads = 2;
    options_.save_every_s = 0;
    options_.validation_fraction = 0.1;
    options_.on_bad_record = BadRecords::kSkip;
  }

  void write(std::string_view name, std::string_view text) { write_bytes(dir_ / str("in/", name), text); }

  /// `rows`, each made by `row` of its number, one behind the other.
  template <class Row>
  static std::string rows(int count, Row&& row) {
    std::string text;
    for (int i = 0; i < count; ++i) text += row(i);
    return text;
  }

  Files files(const std::string& folder) const {
    Files found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / folder))
      found[entry.path().filename()] = entry.is_directory() ? "a folder" : read_bytes(entry.path());
    return found;
  }

  PrepareReport prepare_into(
      const std::string& folder, const ProgressCallback& progress = [](const PrepareProgress&) {}) {
    options_.output = (dir_ / folder).string();
    return prepare(options_, progress);
  }

  /// Ends the work at its `last`-th report of tokenizing; returns whether it came to that.
  bool stopped_behind(const std::string& folder, int last) {
    int reports = 0;
    try {
      prepare_into(folder, [&](const PrepareProgress& progress) {
        if (progress.stage == "tokenizing" && ++reports == last) throw std::bad_alloc();
      });
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  }

  /// Ends the work in each start behind the second batch that it does; returns the number of starts.
  int prepare_in_steps(const std::string& folder) {
    int starts = 1;
    for (; stopped_behind(folder, 4); ++starts)
      EXPECT_FALSE(std::filesystem::exists(dir_ / folder / "train.tok"));
    return starts;
  }

  std::vector<std::string> remarks_into(const std::string& folder) {
    std::vector<std::string> remarks;
    prepare_into(folder, [&](const PrepareProgress& progress) {
      if (!progress.remark.empty()) remarks.push_back(progress.remark);
    });
    return remarks;
  }

  /// What is done in steps is what is done at once.
  void expect_same(int least_starts) {
    prepare_into("whole");
    EXPECT_GE(prepare_in_steps("steps"), least_starts);
    EXPECT_EQ(files("steps"), files("whole"));
    EXPECT_EQ(files("whole").size(), 4U);
  }

  TempDir dir_;
  PrepareOptions options_;
};

TEST_F(PrepareResume, GivesTheSameBytesOfFolders) {
  for (int i = 0; i < 9000; ++i) write(str(i % 7, "/", i, ".txt"), i % 50 == 0 ? "" : str("file ", i, "\n"));
  expect_same(2);
}

TEST_F(PrepareResume, GivesTheSameBytesOfLines) {
  write("a.jsonl", rows(30000, [](int i) { return str(R"({"text": "line )", i, i % 900 ? "\"}\n" : "\n"); }));
  write("b.jsonl", rows(9000, [](int i) { return i % 70 == 0 ? "\n" : str(R"({"text": ")", i, "\"}\n"); }));
  expect_same(4);
}

TEST_F(PrepareResume, GivesTheSameBytesOfPackedLines) {
  write("a.jsonl.gz", gzip(rows(30000, [](int i) { return str(R"({"text": "line )", i, "\"}\n"); })));
  expect_same(3);
}

TEST_F(PrepareResume, GivesTheSameBytesOfPairsInCsv) {
  options_.input = "in";
  options_.target = "out";
  for (const char* name : {"a.csv", "b.csv"}) {
    write(name, "out,in\n" + rows(20000, [](int i) {
                  return i % 800 == 0 ? "one,two,three\n" : str("\"", i, "\nand\",", i * 3, "\n");
                }));
  }
  expect_same(4);
}

TEST_F(PrepareResume, StopsAtTooManyBadRecordsThatAnEarlierStartMet) {
  write("a.jsonl", "{\n{\n" + rows(9000, [](int i) { return str(R"({"text": "line )", i, "\"}\n"); }));
  {
    test::InUse<test::FullDisk> full("/prepare.json");  // which is written when all records are done
    EXPECT_MENTIONS(message_of([&] { prepare_into("out"); }), "No space left on device");
  }
  options_.max_bad_records = 1;
  const auto expect_stop = [&] {
    EXPECT_MENTIONS(message_of([&] { prepare_into("out"); }),
                    "more than 1 bad records (--max-bad-records), first ");
  };
  expect_stop();
  options_.max_bad_records = 2;
  EXPECT_EQ(prepare_into("out").bad_records, 2U);
  options_.max_bad_records = 1;
  expect_stop();  // nothing is left to do
}

TEST_F(PrepareResume, KeepsWhatIsDoneWhenTheDiskIsFull) {
  write("a.jsonl", rows(30000, [](int i) { return str(R"({"text": "line )", i, "\"}\n"); }));
  prepare_into("whole");
  test::FullDisk full("/train.tok");
  std::optional<fs::DiskInUse> in_use;
  // The files that are open by now stay writable; the next start cannot write.
  EXPECT_TRUE(stopped_behind("out", 5));
  in_use.emplace(full);
  EXPECT_TRUE(message_of([&] { prepare_into("out"); }).ends_with("train.tok': No space left on device"));
  in_use.reset();
  const std::vector<std::string> remarks = remarks_into("out");
  ASSERT_EQ(remarks.size(), 3U);
  EXPECT_EQ(remarks[1], "the tokenizer is the one that an earlier start has trained");
  EXPECT_TRUE(remarks[2].starts_with("resumed behind the first ")) << remarks[2];
  EXPECT_EQ(files("out"), files("whole"));
}

/// Remarks of a start after one that ended early and `change`.
class PrepareAnew : public PrepareResume {
 protected:
  void SetUp() override {
    PrepareResume::SetUp();
    options_.format = TextFormat::kJsonl;
    write("a.jsonl", rows(30000, [](int i) { return str(R"({"text": "line )", i, "\"}\n"); }));
    EXPECT_TRUE(stopped_behind("out", 5));
  }
  std::string first_remark() {
    const std::vector<std::string> remarks = remarks_into("out");
    prepare_into("whole");
    EXPECT_EQ(files("out"), files("whole"));
    return remarks.empty() ? "" : remarks.front();
  }
  std::filesystem::path partial(std::string_view name) const { return dir_ / "out/prepare.partial" / name; }
};

TEST_F(PrepareAnew, BeginsWithOtherOptions) {
  options_.seed = 2;
  options_.validation_fraction = 0;
  EXPECT_EQ(first_remark(), str("starting anew: '", partial("").parent_path().string(),
                                "' is left from a start with other seed, validation_fraction"));
}

TEST_F(PrepareAnew, BeginsWithOtherSources) {
  write("b.jsonl", "{\"text\": \"more\"}\n");
  EXPECT_EQ(first_remark(), str("starting anew: '", partial("").parent_path().string(),
                                "' is left from a start with other sources"));
}

TEST_F(PrepareAnew, BeginsWhenTheDraftIsDamaged) {
  std::string bytes = read_bytes(partial("train.tok"));
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(partial("train.tok"), bytes);
  const std::vector<std::string> remarks = remarks_into("out");
  EXPECT_EQ(remarks.back(), str("starting anew: what an earlier start left cannot be used: '",
                                partial("train.tok").string(), "' does not hold what was saved"));
  prepare_into("whole");
  EXPECT_EQ(files("out"), files("whole"));
}

TEST_F(PrepareAnew, BeginsWithANoteThatIsNone) {
  write_bytes(partial("note.json"), "{");
  EXPECT_EQ(first_remark(), "");
}

}  // namespace
}  // namespace echelon::data
