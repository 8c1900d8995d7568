#include "data/prepare/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/fs.h"
#include "base/str.h"
#include "data/prepare/corpus.h"
#include "data/prepare/mixture.h"
#include "data/prepare/sources.h"
#include "data/tokens/token_file.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/tokenizer_json.h"
#include "text/tokenizer.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using namespace testing;  // NOLINT

const auto kSilent = [](const PrepareProgress&) {};

/// A folder of sources, an output folder, and options that join them.
class Prepare : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.sources = {(dir_ / "in").string()};
    options_.output = (dir_ / "out").string();
    options_.train_vocab_size = 400;
    options_.threads = 2;
  }

  /// `count` small text files.
  void write_texts(int count) {
    for (int i = 0; i < count; ++i) {
      std::string text;
      for (int line = 0; line <= i % 7; ++line) text += str("file ", i, ":\n\tline ", line * i, "  größer\n");
      write_bytes(dir_ / str("in/", i % 3, "/", i, ".txt"), text);
    }
  }

  PrepareReport run() { return prepare(options_, kSilent); }
  std::string refusal(Code code = Code::kData) {
    const std::string text = message_of([&] { run(); }, code);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out/train.tok"));
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "out", none))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    return text;
  }
  std::string in(std::string_view name) const { return (dir_ / str("in/", name)).string(); }
  std::filesystem::path out(std::string_view name) const { return dir_ / str("out/", name); }

  std::vector<std::string> documents(std::string_view name,
                                     std::string_view tokenizer = "tokenizer.model") const {
    EXPECT_EQ(TokenFile(out(name)).header().flags, kDocumentsStartWithBos | kDocumentsEndWithEos);
    return documents_of(out(name), tokenizer);
  }

  TempDir dir_;
  PrepareOptions options_;
};

TEST_F(Prepare, KeepsEveryDocumentOfAFolderInSortedOrder) {
  write_texts(100);
  options_.validation_fraction = 0.1;
  const PrepareReport report = run();
  EXPECT_EQ(report.source_files, 100U);
  EXPECT_EQ(report.vocab_size, Tokenizer::load(out("tokenizer.model"))->vocab_size());
  const auto train = documents("train.tok");
  const auto valid = documents("valid.tok");
  EXPECT_EQ(train.size(), report.train.documents);
  EXPECT_EQ(valid.size(), report.valid.documents);
  EXPECT_EQ(train.size() + valid.size(), 100U);
  EXPECT_GT(valid.size(), 2U);
  EXPECT_LT(valid.size(), 25U);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(in(""))) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::size_t next_train = 0;
  std::size_t next_valid = 0;
  for (const auto& path : paths) {
    const std::string text = read_bytes(path);
    if (next_valid < valid.size() && valid[next_valid] == text) {
      ++next_valid;
    } else {
      ASSERT_LT(next_train, train.size());
      EXPECT_EQ(train[next_train++], text) << path;
    }
  }
  EXPECT_EQ(next_valid, valid.size());
}

TEST_F(Prepare, RoundTripsRealSources) {
  options_.sources = {test::source_dir() + "/src/data", test::source_dir() + "/src/base"};
  options_.format = TextFormat::kCode;
  options_.include = {"*.h", "*.cpp"};
  options_.validation_fraction = 0;
  options_.train_vocab_size = 700;
  const PrepareReport report = run();
  EXPECT_EQ(report.valid.tokens, 0U);
  EXPECT_FALSE(std::filesystem::exists(out("valid.tok")));
  std::multiset<std::string> expected;
  for (const auto& source : options_.sources) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source)) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp") expected.insert(read_bytes(entry.path()));
    }
  }
  const auto texts = documents("train.tok");
  EXPECT_EQ(std::multiset(texts.begin(), texts.end()), expected);
}

TEST_F(Prepare, AgreesWithNumpyAndThePythonTokenizer) {
  options_.sources = {test::source_dir() + "/src/data"};
  options_.format = TextFormat::kCode;
  options_.include = {"*.h", "*.cpp"};
  options_.validation_fraction = 0.2;
  options_.train_vocab_size = 700;
  run();
  std::string command = test::test_python() + " " + test::source_dir() +
                        "/tests/support/check_token_file.py " + options_.output;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.sources[0])) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp") command += " " + entry.path().string();
  }
  EXPECT_EQ(std::system(command.c_str()), 0)
      << "if Python or one of its packages is missing: ./make.sh setup test installs it";
}

TEST_F(Prepare, MakesTheSameBytesWithAnyNumberOfThreads) {
  for (int i = 0; i < 30; ++i) {  // above 1 MiB a batch: several batches
    std::string text;
    for (int line = 0; line < 5000; ++line) text += str(i * line, " some words of line ", line % 97, "\n");
    write_bytes(in(str(i, ".txt")), text);
  }
  options_.train_bytes = 200000;
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 5}) {
    options_.threads = threads;
    options_.output = (dir_ / str("out", threads)).string();
    run();
    for (const char* name : {"train.tok", "valid.tok", "tokenizer.model", "prepare.json"}) {
      const std::string bytes = read_bytes(std::filesystem::path(options_.output) / name);
      EXPECT_FALSE(bytes.empty());
      const auto [known, fresh] = first.try_emplace(name, bytes);
      EXPECT_TRUE(fresh || known->second == bytes) << name << " with " << threads;
    }
  }
}

TEST_F(Prepare, ReadsTheFieldOfJsonLines) {
  write_bytes(in("a.jsonl"),
              "{\"text\": \"one\\ntwo\", \"id\": 1}\n\n  \r\n{\"id\": 2, \"text\": \"\\u00e9\"}\r\n");
  write_bytes(in("b.jsonl"), R"({"text": ""})"
                             "\n"
                             R"({"text": "last, no newline"})");
  write_bytes(in("c.txt"), "not asked for");
  write_bytes(in("d.jsonl"), "");
  options_.format = TextFormat::kJsonl;
  options_.validation_fraction = 0;
  const PrepareReport report = run();
  EXPECT_EQ(report.empty_records, 1U);
  EXPECT_EQ(documents("train.tok"), (std::vector<std::string>{"one\ntwo", "é", "last, no newline"}));
  options_.field = "body";
  options_.output = (dir_ / "other").string();
  EXPECT_EQ(
      message_of([&] { run(); }),
      str("bad record ", in("a.jsonl"),
          ":1: has no field 'body': it has id, text (--field NAME); correct it or use --on-bad-record skip"));
}

TEST_F(Prepare, ReadsLinesLongerThanItsBuffer) {
  std::string large;
  while (large.size() < 3000000) large += "many words ";
  write_bytes(in("a.jsonl"), str("{\"text\": \"a\"}\n{\"text\": \"", large, "\"}\n{\"text\": \"z\"}\n"));
  options_.format = TextFormat::kJsonl;
  options_.validation_fraction = 0;
  options_.train_bytes = 1000000000;
  run();
  const auto texts = documents("train.tok");
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[1], large);
  EXPECT_EQ(texts[2], "z");
}

TEST_F(Prepare, StopsAtEveryKindOfBadJsonLine) {
  options_.format = TextFormat::kJsonl;
  const std::string good = "{\"text\": \"good\"}\n";
  const auto refused = [&](const std::string& line) {
    write_bytes(in("a.jsonl"), good + line + "\n" + good);
    return refusal();
  };
  const std::string tail = "; correct it or use --on-bad-record skip";
  const std::string at = str("bad record ", in("a.jsonl"), ":2: ");
  EXPECT_EQ(refused("[1]"), at + "not a JSON object but array" + tail);
  EXPECT_EQ(refused("17"), at + "not a JSON object but number" + tail);
  EXPECT_EQ(refused("{\"txt\": \"x\"}"), at + "has no field 'text': it has txt (--field NAME)" + tail);
  EXPECT_EQ(refused("{}"), at + "has no field 'text': it has none" + tail);
  EXPECT_EQ(
      refused(R"({"id": 1, "messages": []})"),
      at + "has no field 'text': it has id, messages (--field NAME); read conversations with --format chat" +
          tail);
  EXPECT_EQ(refused("{\"text\": null}"), at + "field 'text' is null, expected a string" + tail);
  EXPECT_EQ(refused("{\"text\": [\"x\"]}"), at + "field 'text' is array, expected a string" + tail);
  EXPECT_EQ(refused("{\"text\": \"x\"").rfind(at + "not valid JSON at byte ", 0), 0U);
  EXPECT_EQ(refused("{\"text\": \"\xFF\"}").rfind(at + "not valid JSON at byte ", 0), 0U);
  EXPECT_EQ(refused("{\"text\": \"x\"} {}").rfind(at + "not valid JSON at byte ", 0), 0U);
  for (const char* raw : {"\x1b[2J", "{\"text\": \"\x1b[2J\"}", "{\"text\": \xC2\x9B}"}) {
    const std::string said = refused(raw);
    EXPECT_EQ(said.find_first_of("\x1b\xC2\x9B"), std::string::npos)
        << "nothing of a record reaches the terminal";
  }
  EXPECT_EQ(refused(R"({"a": )" + std::string(200000, '[')).rfind(at + "nested deeper than 512 levels", 0),
            0U);
}

TEST_F(Prepare, CountsAndSkipsBadRecordsOnRequest) {
  write_bytes(in("a.py"), "good = 1\n");
  write_bytes(in("b.py"), "bad = '\xE9'\n");
  write_bytes(in("c.py"), std::string("bin\0ary", 7));
  write_bytes(in("d.py"), "\xEF\xBB\xBFmarked = 2\n");
  write_bytes(in("e.py"), "");
  write_bytes(in(".hidden.py"), "hidden");
  write_bytes(in(".git/f.py"), "hidden");
  options_.format = TextFormat::kCode;
  options_.on_bad_record = BadRecords::kStop;
  EXPECT_EQ(refusal(), str("bad record '", in("b.py"),
                           "': not UTF-8 at byte 7; correct it or use --on-bad-record skip"));
  options_.on_bad_record = BadRecords::kSkip;
  options_.validation_fraction = 0;
  const PrepareReport report = run();
  EXPECT_EQ(report.bad_records, 2U);
  EXPECT_EQ(report.bad_examples, (std::vector{str("'", in("b.py"), "': not UTF-8 at byte 7"),
                                              str("'", in("c.py"), "': a binary file (NUL at byte 3)")}));
  EXPECT_EQ(report.empty_records, 1U);
  EXPECT_EQ(documents("train.tok"), (std::vector<std::string>{"good = 1\n", "marked = 2\n"}));
}

TEST_F(Prepare, SaysWhyThereIsNoTextForATokenizer) {
  write_bytes(in("a.jsonl"), "{\"txt\": \"x\"}\n{}\n");
  options_.format = TextFormat::kJsonl;
  options_.on_bad_record = BadRecords::kSkip;
  EXPECT_EQ(refusal(),
            str("the sources hold no text to train a tokenizer on (2 unusable records, first ", in("a.jsonl"),
                ":1: has no field 'text': it has txt (--field NAME)): name sources that do"));
}

TEST_F(Prepare, GivesBothSidesADocument) {
  for (const int count : {2, 3, 5}) {
    for (const double fraction : {0.0001, 0.5}) {
      for (std::uint64_t seed = 1; seed < 6; ++seed) {
        const TempDir fresh;
        for (int i = 0; i < count; ++i)
          write_bytes(fresh / str("in/", i, ".txt"), str("text number ", i, "\n"));
        options_.sources = {(fresh / "in").string()};
        options_.output = (fresh / "out").string();
        options_.train_vocab_size = 300;
        options_.validation_fraction = fraction;
        options_.seed = seed;
        const PrepareReport report = run();
        EXPECT_GE(report.train.documents, 1U);
        EXPECT_GE(report.valid.documents, 1U);
        EXPECT_EQ(report.train.documents + report.valid.documents, static_cast<std::uint64_t>(count));
      }
    }
  }
}

TEST_F(Prepare, CutsASingleDocument) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += str("word ", i, "\n");
  write_bytes(in("book.txt"), text);
  options_.validation_fraction = 0.25;
  run();
  const auto train = documents("train.tok");
  const auto valid = documents("valid.tok");
  ASSERT_EQ(train.size(), 1U);
  ASSERT_EQ(valid.size(), 1U);
  EXPECT_EQ(train[0] + valid[0], text);
  EXPECT_NEAR(static_cast<double>(valid[0].size()) / static_cast<double>(text.size()), 0.25, 0.05);
}

TEST_F(Prepare, TakesAnotherTokenizer) {
  write_texts(20);
  run();
  const std::string model = read_bytes(out("tokenizer.model"));
  options_.output = (dir_ / "second").string();
  options_.tokenizer = out("tokenizer.model").string();
  options_.train_vocab_size = 0;
  run();
  for (const char* name : {"train.tok", "valid.tok", "tokenizer.model"}) {
    EXPECT_EQ(read_bytes(dir_ / "second" / name), read_bytes(out(name))) << name;
  }
  write_bytes(dir_ / "bad.model", "no model");
  options_.tokenizer = (dir_ / "bad.model").string();
  options_.output = (dir_ / "third").string();
  EXPECT_MENTIONS(message_of([&] { run(); }), "is neither a sentencepiece model nor");
}

TEST_F(Prepare, TakesATokenizerJson) {
  write_texts(20);
  write_bytes(dir_ / "made.bin", testing::byte_level_json());
  options_.tokenizer = (dir_ / "made.bin").string();
  options_.train_vocab_size = 0;
  EXPECT_EQ(run().vocab_size, 261);
  EXPECT_EQ(read_bytes(out("tokenizer.json")), testing::byte_level_json());
  EXPECT_FALSE(std::filesystem::exists(out("tokenizer.model")));
  EXPECT_TRUE(run().up_to_date);
  const std::string text = documents("train.tok", "tokenizer.json").at(0);
  EXPECT_EQ(text.rfind("file ", 0), 0U) << text;
  // The other kind in the same folder takes its place.
  options_.tokenizer.clear();
  options_.train_vocab_size = 400;
  options_.force = true;
  run();
  EXPECT_TRUE(std::filesystem::exists(out("tokenizer.model")));
  EXPECT_FALSE(std::filesystem::exists(out("tokenizer.json")));
}

TEST_F(Prepare, RefusesAFolderWhoseFilesBeginTextsInTwoWays) {
  write_texts(20);
  options_.tokenizer = (dir_ / "hf").string();
  options_.train_vocab_size = 0;
  write_bytes(dir_ / "hf/tokenizer.json", testing::byte_level_json());
  const auto flag = [&](const char* value) {
    write_bytes(dir_ / "hf/tokenizer_config.json",
                str(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": )", value, "}"));
  };
  flag("false");
  EXPECT_MENTIONS(message_of([&] { run(); }), "add_bos_token is false, but the tokenizer beside it begins");
  flag("true");
  EXPECT_EQ(run().vocab_size, 261);
}

TEST_F(Prepare, DoesNothingTheSecondTime) {
  write_texts(20);
  EXPECT_FALSE(run().up_to_date);
  const auto written = std::filesystem::last_write_time(out("train.tok"));
  options_.threads = 1;
  const PrepareReport second = run();
  EXPECT_TRUE(second.up_to_date);
  EXPECT_EQ(second.source_files, 20U);
  EXPECT_EQ(second.train.tokens, TokenFile(out("train.tok")).token_count());
  EXPECT_EQ(std::filesystem::last_write_time(out("train.tok")), written);
}

TEST_F(Prepare, MakesDamagedOrMissingOutputAgain) {
  write_texts(20);
  run();
  const std::string train = read_bytes(out("train.tok"));
  for (const char* name : {"train.tok", "valid.tok", "tokenizer.model"}) {
    const std::string whole = read_bytes(out(name));
    write_bytes(out(name), whole.substr(0, whole.size() / 2));
    EXPECT_FALSE(run().up_to_date) << name;
    EXPECT_EQ(read_bytes(out(name)), whole) << name;
    std::filesystem::remove(out(name));
    EXPECT_FALSE(run().up_to_date) << name;
    EXPECT_EQ(read_bytes(out(name)), whole) << name;
  }
  // A run that was interrupted while it published leaves a manifest without results.
  const auto made_from = nlohmann::ordered_json::parse(read_bytes(out("prepare.json"))).at("made_from");
  write_bytes(out("prepare.json"), nlohmann::ordered_json{{"made_from", made_from}}.dump());
  EXPECT_FALSE(run().up_to_date);
  EXPECT_TRUE(run().up_to_date);
}

TEST_F(Prepare, ReplacesOtherDataOnlyByForce) {
  write_texts(20);
  run();
  const std::string expected =
      str("'", out("prepare.json").string(),
          "' was made from other sources or options: choose another --output or replace it "
          "with --force");
  options_.seed = 2;
  EXPECT_EQ(message_of([&] { run(); }), expected);
  options_.seed = 1;
  options_.validation_fraction = 0.3;
  EXPECT_EQ(message_of([&] { run(); }), expected);
  options_.validation_fraction = 0.02;
  write_bytes(in("new.txt"), "one more\n");
  EXPECT_EQ(message_of([&] { run(); }), expected);
  options_.force = true;
  options_.validation_fraction = 0;
  EXPECT_FALSE(run().up_to_date);
  EXPECT_FALSE(std::filesystem::exists(out("valid.tok")));
  EXPECT_TRUE(run().up_to_date);
  options_.force = false;
  std::filesystem::remove(out("prepare.json"));
  EXPECT_EQ(message_of([&] { run(); }),
            str("'", out("train.tok").string(),
                "' was made from other sources or options: choose another --output or "
                "replace it with --force"));
}

TEST_F(Prepare, RefusesSourcesItCannotRead) {
  EXPECT_EQ(refusal(), str("cannot read source '", (dir_ / "in").string(), "': No such file or directory"));
  write_bytes(in("a.pdf"), "x");
  EXPECT_EQ(refusal(), str("no source files of a known suffix in ", (dir_ / "in").string(),
                           ": name other sources or patterns (--include)"));
  std::filesystem::create_symlink("nowhere", in("away.csv"));  // matches nothing of what is wanted
  options_.format = TextFormat::kText;
  std::filesystem::create_symlink("nowhere", in("linked.txt"));
  EXPECT_EQ(refusal(), str("cannot read source '", in("linked.txt"), "': No such file or directory"));
  std::filesystem::remove(in("linked.txt"));
  options_.format = TextFormat::kBySuffix;
  std::filesystem::remove(in("away.csv"));
  options_.sources = {"/dev/null"};
  EXPECT_EQ(refusal(), "source '/dev/null' is neither a file nor a folder");
  options_.sources = {(dir_ / "in").string()};
  write_bytes(in("a.txt"), "");
  EXPECT_EQ(refusal(), "the sources hold no text to train a tokenizer on: name sources that do");
  write_bytes(in("b.txt"), "text");
  if (::geteuid() != 0) {  // permissions do not bind root
    std::filesystem::permissions(in("b.txt"), std::filesystem::perms::none);
    EXPECT_EQ(refusal(), str("cannot open '", in("b.txt"), "': Permission denied"));
  }
}

TEST_F(Prepare, RefusesTextWithoutTokens) {
  write_texts(5);
  run();
  options_.tokenizer = out("tokenizer.model").string();
  options_.train_vocab_size = 0;
  options_.output = (dir_ / "empty").string();
  options_.sources = {(dir_ / "none").string()};
  write_bytes(dir_ / "none/a.txt", "");
  EXPECT_EQ(message_of([&] { run(); }), "the 1 source files hold no text (1 empty and 0 unusable records)");
}

TEST_F(Prepare, RefusesAnOutputItCannotUse) {
  write_texts(3);
  write_bytes(dir_ / "file", "");
  options_.output = (dir_ / "file").string();
  EXPECT_EQ(message_of([&] { run(); }).rfind("output (--output): cannot create folder '", 0), 0U);
  options_.validation_fraction = 0;
  options_.output = (dir_ / "out").string();
  std::filesystem::create_directories(out(""));
  write_bytes(out("train.tok.0123abcd.tmp"), "left by a run that was killed");
  {
    test::InUse<test::FullDisk> disk("/train.tok");
    EXPECT_EQ(refusal(),
              str("cannot write '", out("prepare.partial/train.tok").string(), "': No space left on device"));
  }
  EXPECT_TRUE(std::filesystem::exists(out("prepare.json")));
  EXPECT_FALSE(run().up_to_date);  // space was made: the same command goes through
}

TEST_F(Prepare, LetsOnlyOneRunWriteToAFolder) {
  write_texts(3);
  write_bytes(out("prepare.partial/lock"), "");
  const fs::Fd other = fs::open(out("prepare.partial/lock"), O_RDONLY, Code::kData);
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(refusal(), str("another `echelon prepare` is writing to '", options_.output, "': wait for it"));
}

TEST_F(Prepare, RefusesContradictoryOptions) {
  const std::string which =
      "name either a tokenizer (--tokenizer FILE) or the size of one to train (--train-tokenizer VOCAB_SIZE)";
  options_.tokenizer = "t.model";
  EXPECT_EQ(refusal(Code::kUsage), which);
  options_.tokenizer = "";
  options_.train_vocab_size = 0;
  EXPECT_EQ(refusal(Code::kUsage), which);
  options_.train_vocab_size = 299;
  EXPECT_EQ(refusal(Code::kUsage), "--train-tokenizer is 299, expected 300 to 1000000");
  options_.train_vocab_size = 300;
  options_.validation_fraction = 0.6;
  EXPECT_EQ(refusal(Code::kUsage), "--validation-fraction is 0.6, expected 0 to 0.5");
  options_.validation_fraction = 0.1;
  options_.threads = 0;
  EXPECT_EQ(refusal(Code::kUsage), "--threads is 0, expected 1 to 1024");
}

TEST_F(Prepare, TakesEachFileOnceAndNoneOfItsOwnOutput) {
  write_bytes(in("a.txt"), "first\n");
  write_bytes(in("deep/b.txt"), "second\n");
  write_bytes(in("deep/c.text"), "third\n");
  options_.output = in("deep/out");
  write_bytes(in("deep/out/left.txt"), "output\n");
  std::filesystem::create_directory_symlink(in("deep"), in("link"));
  options_.sources = {in("deep"), in(""), in("deep/b.txt"), in("./deep/../a.txt"), in("deep/c.text")};
  options_.validation_fraction = 0;
  EXPECT_EQ(run().source_files, 3U);
  options_.output = (dir_ / "out").string();
  options_.sources = {in("")};
  options_.include = {"deep/*.txt"};
  EXPECT_EQ(run().source_files, 2U);  // deep/b.txt and, no output any more, deep/out/left.txt
}

TEST(MixtureRecipe, NamesTheKindOfWhatIsNoText) {
  MixturePart part{.name = "null", .weight = 0.5, .options = {}};
  part.options.output = "mix/null";
  PrepareReport report;
  const auto recipe = [&] { return mixture_recipe({part}, {report}); };
  EXPECT_TRUE(recipe().ends_with("data:\n  mixture:\n    \"mix/null/train.tok\": 0.5\n")) << recipe();
  report.valid.tokens = 1;
  part.options.format = TextFormat::kChat;
  EXPECT_TRUE(
      recipe().ends_with("data:\n  kind: chat\n  mixture:\n    \"mix/null/train.tok\": 0.5\n"
                         "  validation:\n    sources:\n      \"null\": \"mix/null/valid.tok\"\n"))
      << recipe();
  part.options.format = TextFormat::kJsonl;
  part.options.input = part.options.target = "text";
  EXPECT_NE(recipe().find("  kind: pairs\n"), std::string::npos) << recipe();
}

TEST(SampleLines, OfATextWithoutLineFeedsAreItsParts) {
  const TempDir dir;
  std::string text;
  for (int word = 0; text.size() < 1'000'000; ++word) text += str("word", word, ' ');
  write_bytes(dir / "a.txt", text);
  PrepareOptions options{.sources = {(dir / "a.txt").string()}, .format = TextFormat::kText, .threads = 1};
  options.train_bytes = 100'000;
  const auto lines = sample_lines(list_sources(options).files, options, kSilent).lines;
  std::size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size();
  EXPECT_NEAR(static_cast<double>(bytes), 1e5, 4e4);
}

}  // namespace
}  // namespace echelon::data
