#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "base/str.h"
#include "data/prepare/csv_row.h"
#include "data/prepare/prepare.h"
#include "data/prepare/row_stream.h"
#include "data/prepare/source_stream.h"
#include "data/prepare/sources.h"
#include "data/tokens/token_file.h"
#include "support/matches.h"
#include "support/places.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using namespace testing;  // NOLINT

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the program zstd does
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

class PrepareRows : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.output = (dir_ / "out").string();
    options_.train_vocab_size = 400;
    options_.threads = 2;
    options_.validation_fraction = 0;
  }

  /// One source file, made anew.
  void source(std::string_view name, const std::string& bytes) {
    write_bytes(dir_ / name, bytes);
    options_.sources = {(dir_ / name).string()};
  }
  PrepareReport run() {
    remark_.clear();
    return prepare(options_, [&](const PrepareProgress& progress) {
      if (!progress.remark.empty()) remark_ = progress.remark;
    });
  }
  std::string refusal(Code code = Code::kData) {
    return message_of([&] { run(); }, code);
  }
  std::string in(std::string_view name) const { return (dir_ / name).string(); }
  void pairs(const char* input, const char* target) {
    options_.input = input;
    options_.target = target;
  }

  std::vector<std::string> documents() const {
    return documents_of(std::filesystem::path(options_.output) / "train.tok");
  }

  TempDir dir_;
  PrepareOptions options_;
  std::string remark_;
};

using Texts = std::vector<std::string>;

TEST_F(PrepareRows, MakesPairsOfTwoColumns) {
  options_.format = TextFormat::kCsv;
  options_.prefix = "summarize: ";
  pairs("text", "headline");
  source("w.csv",
         "\xEF\xBB\xBFheadline,title,text\r\n\"first,\nsecond\",t,\"a \"\"quoted\"\" text\"\r\n\r\nh,,x\n");
  EXPECT_EQ(run().bad_records, 0U);
  EXPECT_EQ(documents(), (Texts{"summarize: a \"quoted\" text", "first,\nsecond", "summarize: x", "h"}));
  EXPECT_TRUE(TokenFile(dir_ / "out/train.tok").header().holds_pairs());
}

TEST_F(PrepareRows, ReadsEachSuffixAsWhatItSays) {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  const std::string rows = "id,text\n1,one\n2,two\n";
  const std::vector<std::tuple<std::string, std::string, TextFormat, std::string>> files{
      {"a.jsonl", lines, TextFormat::kJsonl, "jsonl, 'text' of each line a document"},
      {"a.JSONL", lines, TextFormat::kJsonl, "jsonl, 'text' of each line a document"},
      {"a.ndjson.zst", zstd(lines), TextFormat::kJsonl, "jsonl, 'text' of each line a document"},
      {"a.jsonl.gz", gzip(lines), TextFormat::kJsonl, "jsonl, 'text' of each line a document"},
      {"a.json", lines, TextFormat::kJsonl, "jsonl, 'text' of each line a document"},
      {"a.json.gz", gzip(lines), TextFormat::kJsonl, "jsonl, 'text' of each line a document"},
      {"a.csv", rows, TextFormat::kCsv, "csv, 'text' of each row a document"},
      {"a.csv.gz", gzip(rows), TextFormat::kCsv, "csv, 'text' of each row a document"},
      {"a.txt", "one", TextFormat::kText, "text, each a document"},
      {"a.md.gz", gzip("one"), TextFormat::kText, "text, each a document"},
      {"a.py", "one", TextFormat::kCode, "code, each a document"},
  };
  for (const auto& [name, bytes, format, said] : files) {
    source(name, bytes);
    options_.output = in(str("out of ", name));
    EXPECT_EQ(run().format, format) << name;
    EXPECT_EQ(remark_, str("reading 1 file as ", said, " (by suffix; --format overrides it)")) << name;
    const bool rows_of_text = format == TextFormat::kJsonl || format == TextFormat::kCsv;
    EXPECT_EQ(documents(), rows_of_text ? (Texts{"one", "two"}) : Texts{"one"}) << name;
    EXPECT_TRUE(run().up_to_date) << name;
  }
}

TEST_F(PrepareRows, TakesAnUnknownSuffixForTextAndSaysSo) {
  for (const char* name : {"corpus", "a.dat", "a.gz"}) {
    source(name, name == std::string("a.gz") ? gzip("one") : "one");
    options_.output = in(str("out of ", name));
    EXPECT_EQ(run().format, TextFormat::kText);
    EXPECT_EQ(remark_, str("reading 1 file as text, each a document ('", in(name),
                           "' has no suffix that names a format; set it with --format)"));
  }
  options_.field = "body";  // which only rows have
  EXPECT_EQ(refusal(Code::kUsage),
            "--field needs rows, and the sources are read as text; name their format with --format csv, "
            "jsonl or parquet");
  options_.format = TextFormat::kJsonl;
  options_.output = in("rows");
  source("a.dat", "{\"body\": \"one\"}\n");
  EXPECT_EQ(run().format, TextFormat::kJsonl);
  EXPECT_EQ(remark_, "") << "a format that was named needs no remark";
}

TEST_F(PrepareRows, RefusesSourcesOfSeveralFormats) {
  write_bytes(dir_ / "in/a.csv", "text\none\n");
  write_bytes(dir_ / "in/b.txt", "one");
  write_bytes(dir_ / "in/described.json", "{}");  // passed over in a folder
  options_.sources = {in("in")};
  const std::string choose =
      "; name one with --format, choose files with --include, or prepare them separately";
  EXPECT_EQ(refusal(Code::kUsage), str("the sources are of more than one format: '", in("in/a.csv"),
                                       "' is csv, '", in("in/b.txt"), "' is text", choose));
  write_bytes(dir_ / "notes", "one");
  options_.sources = {in("in/a.csv"), in("notes")};
  EXPECT_EQ(refusal(Code::kUsage),
            str("the sources are of more than one format: '", in("in/a.csv"), "' is csv, '", in("notes"),
                "' is text (the default for its name)", choose));
  options_.sources = {in("in")};
  options_.include = {"*.csv"};
  EXPECT_EQ(run().format, TextFormat::kCsv);
  options_.include.clear();
  options_.format = TextFormat::kText;
  options_.output = in("texts");
  EXPECT_EQ(run().source_files, 1U);
}

TEST_F(PrepareRows, SkipsBadRecordsOfCodeAlone) {
  source("a.py", "bad = '\xE9'\n");
  options_.sources.push_back(in("b.py"));
  write_bytes(dir_ / "b.py", "good = 1\n");
  EXPECT_EQ(run().bad_records, 1U);
  source("a.txt", "caf\xE9");
  options_.output = in("texts");
  EXPECT_EQ(refusal(), str("bad record '", in("a.txt"),
                           "': not UTF-8 at byte 3; correct it or use --on-bad-record skip"));
}

TEST_F(PrepareRows, AgreesWithPythonsCsvAndJson) {
  const std::string command =
      str(test::test_python() + " " + test::source_dir() + "/tests/support/write_pairs.py ", in("p.csv"), " ",
          in("p.jsonl"), " ", in("p.json"));
  ASSERT_EQ(std::system(command.c_str()), 0);
  pairs("text", "headline");
  options_.validation_fraction = 0.1;
  options_.format = TextFormat::kCsv;
  options_.sources = {in("p.csv")};
  EXPECT_EQ(run().train.documents % 2, 0U);
  const std::string train = read_bytes(dir_ / "out/train.tok");
  const std::string valid = read_bytes(dir_ / "out/valid.tok");
  options_.tokenizer = in("out/tokenizer.model");
  options_.train_vocab_size = 0;
  options_.format = TextFormat::kJsonl;
  for (const char* name : {"p.jsonl", "p.json"}) {
    options_.output = in("of_") + name;
    options_.sources = {in(name)};
    const PrepareReport report = run();
    EXPECT_EQ(report.bad_records, 0U);
    EXPECT_EQ(report.train.documents + report.valid.documents, 4000U);
    EXPECT_EQ(read_bytes(fs::Path(options_.output) / "train.tok"), train);
    EXPECT_EQ(read_bytes(fs::Path(options_.output) / "valid.tok"), valid);
  }
}

TEST_F(PrepareRows, ReadsTheElementsOfAnArrayOfJson) {
  options_.on_bad_record = BadRecords::kSkip;
  source("a.json", R"([{"text": "one"},{"text":
"t, ]\\\"w"} ,
17, {"text": {"a": [1]}}, [{"text": "x"}],, {"text": "three"}]
{"text": "a line"}
)");
  const PrepareReport report = run();
  EXPECT_EQ(documents(), (Texts{"one", "t, ]\\\"w", "three", "a line"}));
  EXPECT_EQ(report.bad_examples, (Texts{str(in("a.json"), ":3: not a JSON object but number"),
                                        str(in("a.json"), ":3: field 'text' is object, expected a string"),
                                        str(in("a.json"), ":3: not a JSON object but array")}));
}

TEST_F(PrepareRows, SaysWhereAnArrayOfJsonIsDamaged) {
  options_.on_bad_record = BadRecords::kSkip;
  source("a.json", "[\n{\"text\": \"a},\n{\"text\": \"b\"},\n{\"text\": \"c\"},\n{\"text\": \"d\"}");
  const PrepareReport report = run();
  EXPECT_EQ(documents(), Texts{"c"});
  ASSERT_EQ(report.bad_examples.size(), 2U);
  EXPECT_MENTIONS(report.bad_examples[0], in("a.json") + ":2: not valid JSON at byte ");
  EXPECT_EQ(report.bad_examples[1],
            in("a.json") + ":5: the array is not closed at the end of the file: is it cut short?");
}

TEST_F(PrepareRows, CountsAndNamesBadRows) {
  options_.format = TextFormat::kCsv;
  pairs("text", "headline");
  const std::string rows =
      "headline,title,text\n"  // 1
      "h1,t,x1\n"              // 2
      "too,few\n"              // 3
      "\"two\nlines\",t,\n"    // 4, 5: no text
      "  ,t,x\n"               // 6: no headline
      "bad \xFF,t,x\n"         // 7
      "\"a\"b,t,x\n"           // 8
      "h2,t,x2\n"              // 9
      "h3,t,\"never closed\n"  // 10
      "h4,t,x4\n";             // 11
  source("w.csv", rows);
  EXPECT_EQ(refusal(), str("bad record ", in("w.csv"),
                           ":3: has 2 columns, the header row 3; correct it or use "
                           "--on-bad-record skip"));
  options_.on_bad_record = BadRecords::kSkip;
  const PrepareReport report = run();
  EXPECT_EQ(documents(), (Texts{"x1", "h1", "x2", "h2", "x4", "h4"}));
  EXPECT_EQ(report.bad_records, 6U);
  EXPECT_EQ(report.bad_examples,
            (Texts{str(in("w.csv"), ":3: has 2 columns, the header row 3"),
                   str(in("w.csv"), ":4: 'text' is empty"), str(in("w.csv"), ":6: 'headline' is empty"),
                   str(in("w.csv"), ":7: not UTF-8 at byte 4 of the row"),
                   str(in("w.csv"), ":8: text after the closing quote of column 1"),
                   str(in("w.csv"), ":10: its quote is still open at the end of the file")}));
  EXPECT_EQ(report.kept_records, 3U);
  EXPECT_EQ(report.bad_reasons, (BadReasons{{"has N columns, the header row N", 1},
                                            {"'text' is empty", 1},
                                            {"'headline' is empty", 1},
                                            {"not UTF-8 at byte N of the row", 1},
                                            {"text after the closing quote of column N", 1},
                                            {"its quote is still open at the end of the file", 1}}));
  options_.max_bad_records = 5;
  options_.output = in("other");
  EXPECT_EQ(refusal(), str("more than 5 bad records (--max-bad-records), first ", in("w.csv"),
                           ":3: has 2 columns, the header row 3; correct them or allow more"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "other/train.tok"));
}

TEST_F(PrepareRows, TakesOneColumnAsDocuments) {
  options_.format = TextFormat::kCsv;
  options_.field = "body";
  source("w.csv", "id,body\n1,one\n2,\n3,\"three\nlines\"");
  EXPECT_EQ(run().empty_records, 1U);
  EXPECT_EQ(documents(), (Texts{"one", "three\nlines"}));
  EXPECT_FALSE(TokenFile(dir_ / "out/train.tok").header().holds_pairs());
}

TEST_F(PrepareRows, RefusesFilesWithoutTheColumns) {
  options_.format = TextFormat::kCsv;
  pairs("text", "headline");
  source("w.csv", "a,text,text\n1,2,3\n");
  EXPECT_EQ(refusal(),
            str("'", in("w.csv"), "' has more than one column 'text'; its header row has: a, text, text"));
  source("w.csv", "a,b\n1,2\n");
  EXPECT_EQ(refusal(), str("'", in("w.csv"), "' has no column 'text'; its header row has: a, b"));
  source("w.csv", "");
  EXPECT_EQ(refusal(), str("'", in("w.csv"), "' has no header row: it is empty"));
  options_.target = "";
  EXPECT_EQ(refusal(Code::kUsage),
            "--input and --target make pairs: name both fields, or neither for documents");
  pairs("text", "headline");
  options_.format = TextFormat::kText;
  EXPECT_EQ(refusal(Code::kUsage),
            "--input and --target need rows, and the sources are read as text; name their format with "
            "--format csv, jsonl or parquet");
}

TEST_F(PrepareRows, ReadsCompressedFiles) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += str("{\"text\": \"line ", i, " größer\"}\n");
  options_.format = TextFormat::kJsonl;
  source("a.jsonl", lines);
  run();
  const std::string expected = read_bytes(dir_ / "out/train.tok");
  options_.tokenizer = in("out/tokenizer.model");
  options_.train_vocab_size = 0;
  const std::size_t half = lines.find('\n', lines.size() / 2) + 7;  // members may end inside of a line
  const std::vector<std::pair<std::string, std::string>> files{
      {"a.jsonl.gz", gzip(lines)},
      {"b.jsonl.gz", gzip(lines.substr(0, half)) + gzip(lines.substr(half))},
      {"a.jsonl.zst", zstd(lines)},
      {"b.jsonl.zst", zstd(lines.substr(0, half)) + zstd(lines.substr(half))}};
  for (const auto& [name, bytes] : files) {
    options_.output = in("out-" + name);
    source(name, bytes);
    run();
    EXPECT_EQ(read_bytes(dir_ / options_.output / "train.tok"), expected) << name;
  }
  options_.output = in("text");
  options_.format = TextFormat::kText;
  source("a.txt.zst", zstd(lines));
  EXPECT_EQ(run().train.documents, 1U);
}

TEST_F(PrepareRows, RefusesDamagedCompressedFiles) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += str("{\"text\": \"line ", i * i, "\"}\n");
  options_.format = TextFormat::kJsonl;
  options_.on_bad_record = BadRecords::kSkip;  // no policy covers up a hole
  for (const auto& [name, whole] : {std::pair{std::string("a.gz"), gzip(lines)}, {"a.zst", zstd(lines)}}) {
    const std::string kind = name == "a.gz" ? "gzip" : "zstd";
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{9}, whole.size() / 2, whole.size() - 1}) {
      source(name, whole.substr(0, size));
      EXPECT_EQ(refusal(),
                str("source '", in(name), "' is cut short: its compressed data end too early at byte ", size,
                    " of ", size, ": copy it again"));
    }
    source(name, whole + "x");
    EXPECT_NE(refusal(), "") << name;
    source(name, "plain text, much longer than any magic number");
    EXPECT_EQ(refusal().rfind(str("source '", in(name), "' contains data that is not ", kind, " ("), 0), 0U)
        << refusal();
    std::string damaged = whole;
    damaged[whole.size() / 2] ^= 0x55;
    source(name, damaged);
    EXPECT_NE(refusal(), "") << name;
  }
}

TEST_F(PrepareRows, ReadsAFileWithSeveralNamesOnce) {
  source("a.txt", "some text\n");
  std::filesystem::create_symlink(in("a.txt"), dir_ / "b.txt");
  std::filesystem::create_hard_link(in("a.txt"), dir_ / "c.txt");
  options_.sources = {in("a.txt"), in("./a.txt"), in("b.txt"), in("c.txt")};
  const PrepareReport report = run();
  EXPECT_EQ(report.source_files, 1U);
  EXPECT_EQ(report.duplicate_sources, 3U);
  EXPECT_EQ(documents(), Texts{"some text\n"});
}

TEST_F(PrepareRows, TakesParquetForNoOtherFormat) {
  source("a.parquet", "PAR1");
  for (const auto format : {TextFormat::kText, TextFormat::kJsonl, TextFormat::kCsv}) {
    options_.format = format;
    EXPECT_EQ(message_of([&] { run(); }, Code::kUsage),
              str("source '", in("a.parquet"), "' is Parquet by its suffix, not ", word_of(format),
                  ": use --format parquet, chat or preference"));
  }
  options_.format = TextFormat::kBySuffix;
  source("a.PARQUET.gz", "PAR1");
  EXPECT_MENTIONS(refusal(), "a.PARQUET.gz' is a compressed Parquet file, which cannot be read in parts");
}

TEST(RowStream, GoesOnBehindARowThatIsTooLong) {
  const TempDir dir;
  const std::string huge(RowStream::kLongestRow + 5, 'x');
  write_bytes(dir / "a", "one\n" + huge + "\ntwo");
  const SourceFile file{.path = dir / "a", .bytes = huge.size() + 8};
  for (const auto kind : {RowStream::Kind::kLines, RowStream::Kind::kCsv}) {
    RowStream rows(file, kind);
    Row row;
    ASSERT_TRUE(rows.next(row));
    EXPECT_EQ(row.text, "one");
    ASSERT_TRUE(rows.next(row));
    EXPECT_EQ(row.fault, "longer than 67108864 bytes");
    EXPECT_EQ(row.number, 2U);
    ASSERT_TRUE(rows.next(row));
    EXPECT_EQ(row.text, "two");
    EXPECT_EQ(row.number, 3U);
    EXPECT_FALSE(rows.next(row));
    EXPECT_EQ(rows.position(), file.bytes);
  }
}

TEST(RowStream, LeavesOutAllLinesOfAQuotedRowThatIsTooLong) {
  const TempDir dir;
  const std::string line = std::string(999, 'x') + "\n";
  std::string huge = "\"";
  while (huge.size() <= RowStream::kLongestRow + (std::size_t{3} << 20)) huge += line;
  const auto lines = static_cast<std::uint64_t>(std::ranges::count(huge, '\n'));
  const std::string text = "one\n" + huge + "its end\",b\n\"two\nlines\"\n";
  write_bytes(dir / "a", text);
  RowStream rows({.path = dir / "a", .bytes = text.size()}, RowStream::Kind::kCsv);
  Row row;
  ASSERT_TRUE(rows.next(row));
  EXPECT_EQ(row.text, "one");
  ASSERT_TRUE(rows.next(row));
  EXPECT_EQ(row.fault, str("longer than 67108864 bytes up to line ", 2 + lines, "; is a quote not closed?"));
  ASSERT_TRUE(rows.next(row));
  EXPECT_EQ(row.text, "\"two\nlines\"");
  EXPECT_EQ(row.number, 3U + lines);
  EXPECT_FALSE(rows.next(row));
  EXPECT_EQ(rows.position(), text.size());
}

TEST(Sources, SuffixesCountInAnyCase) {
  const TempDir dir;
  for (const char* name : {"a.txt", "B.TXT", "c.Txt.GZ", "d.png"}) write_bytes(dir / name, gzip("x"));
  const Sources sources = list_sources({.sources = {dir.path().string()}, .format = TextFormat::kText});
  ASSERT_EQ(sources.files.size(), 3U);
  SourceStream stream(sources.files.back(), packing_of(sources.files.back().path));
  std::array<char, 4> text{};
  EXPECT_EQ(stream.read(text), 1U) << "of gzip, by its suffix";
}

TEST(Sources, TellsOfJsonFilesThatAreLeftOut) {
  const TempDir dir;
  PrepareOptions options{.sources = {dir.path().string(), (dir / "in").string()}};
  write_bytes(dir / "in/a.json", "{}");
  EXPECT_EQ(message_of([&] { (void)list_sources(options); }, Code::kData),
            str("no source files of a known suffix in ", join(options.sources, ", "),
                "; 1 .json file of folders is left out: name it, or use --include '*.json'"));
  write_bytes(dir / "B.JSON", "{}");
  write_bytes(dir / ".hidden.json", "{}");
  write_bytes(dir / "c.jsonl", "{}");
  EXPECT_EQ(list_sources(options).remark,
            "2 .json files of folders are left out: name them, or use --include '*.json'");
  options.sources.push_back((dir / "in/a.json").string());
  EXPECT_TRUE(list_sources(options).remark.starts_with("1 .json file of"));
  options.format = TextFormat::kJsonl;
  options.include = {"*.jsonl"};
  EXPECT_EQ(list_sources(options).remark, "") << "as it was asked for";
}

TEST(SourceStream, TakesTheLargestWindowThatZstdMakes) {
  const TempDir dir;
  std::string out(1024, '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 28);  // above what the library takes unasked
  ZSTD_inBuffer in{"abc", 3, 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  EXPECT_EQ(ZSTD_isError(ZSTD_compressStream2(context, &to, &in, ZSTD_e_flush)),
            0U);  // the size is not known
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end), 0U);
  ZSTD_freeCCtx(context);
  write_bytes(dir / "a.zst", out.substr(0, to.pos));
  SourceStream stream({.path = dir / "a.zst", .bytes = to.pos}, Packing::kZstd);
  std::array<char, 4> text{};
  EXPECT_EQ(stream.read(text), 3U);
}

}  // namespace
}  // namespace echelon::data
