#include "data/parquet/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include "base/files/fs.h"
#include "support/long_form.h"
#include "support/matches.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using namespace testing;  // NOLINT

using Texts = std::vector<std::string>;

class ParquetFileTest : public ::testing::Test {
 protected:
  /// Row groups of two rows.
  void write(const std::string& rows) const {
    const auto message =
        arrow::struct_({arrow::field("role", arrow::utf8()), arrow::field("weight", arrow::float64())});
    const auto schema =
        arrow::schema({arrow::field("text", arrow::utf8()), arrow::field("messages", arrow::list(message))});
    const auto object = arrow::struct_(schema->fields());
    const auto values = arrow::json::ArrayFromJSONString(object, rows).ValueOrDie();
    const auto batch = arrow::RecordBatch::FromStructArray(values).ValueOrDie();
    const auto table = arrow::Table::FromRecordBatches({batch}).ValueOrDie();
    const auto out = arrow::io::FileOutputStream::Open(path_.string()).ValueOrDie();
    ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 2).ok());
    ASSERT_TRUE(out->Close().ok());
  }

  [[nodiscard]] Texts rows(const std::vector<WantedColumn>& columns) const {
    const fs::Fd fd = fs::open(path_, O_RDONLY, Code::kData);
    const SourceFile source{.path = path_, .bytes = std::filesystem::file_size(path_)};
    ParquetFile file(fd.get(), source, columns);
    Texts texts;
    Row row;
    while (file.next(row)) {
      EXPECT_EQ(row.number, texts.size() + 1);
      texts.push_back(row.fault + row.text);
    }
    EXPECT_EQ(file.position(), source.bytes);
    EXPECT_FALSE(file.next(row));
    return texts;
  }

  void replace(std::size_t at, char byte) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  TempDir dir_;
  std::filesystem::path path_ = dir_ / "a.parquet";
  const WantedColumn text_{.name = "text", .option = "--field"};
  const WantedColumn messages_{.name = "messages", .option = "--messages"};
};

constexpr const char* kRows =
    R"([["one", [["user", 1], ["assistant", null]]], [null, []], ["three", null], ["ä", [[null, 0.5]]], ["", [null]]])";

TEST_F(ParquetFileTest, GivesEachRowAsTheWantedColumns) {
  write(kRows);
  EXPECT_EQ(rows({text_}), (Texts{R"({"text": "one"})", R"({"text": null})", R"({"text": "three"})",
                                  R"({"text": "ä"})", R"({"text": ""})"}));
  const WantedColumn tools{.name = "tools", .option = "--tools", .may_lack = true};
  EXPECT_EQ(
      rows({messages_, tools}),
      (Texts{R"({"messages": [{"role": "user", "weight": 1.0}, {"role": "assistant", "weight": null}]})",
             R"({"messages": []})", R"({"messages": null})",
             R"({"messages": [{"role": null, "weight": 0.5}]})", R"({"messages": [null]})"}));
  EXPECT_EQ(rows({messages_, text_}).back(), R"({"messages": [null], "text": ""})");
}

TEST_F(ParquetFileTest, HasNoRowsWhereTheFileHasNone) {
  write("[]");
  const fs::Fd fd = fs::open(path_, O_RDONLY, Code::kData);
  const SourceFile source{.path = path_, .bytes = std::filesystem::file_size(path_)};
  ParquetFile file(fd.get(), source, {text_});
  Row row;
  EXPECT_FALSE(file.next(row));
}

TEST_F(ParquetFileTest, RefusesADamagedFileOrReadsIt) {
  write(kRows);
  const std::string whole = read_bytes(path_);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (std::size_t bit = 0; bit < 8; ++bit) {
      if (!test::long_form() && bit != at % 8) continue;
      replace(at, static_cast<char>(whole[at] ^ (1 << bit)));
      try {
        (void)rows({text_, messages_});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kData);
        EXPECT_EQ(std::string(error.what()).find("source '" + path_.string() + "' "), 0U) << error.what();
        ++refused;
      }
    }
    replace(at, whole[at]);
  }
  EXPECT_GT(refused, whole.size() / 4);
}

TEST_F(ParquetFileTest, RefusesAFileCutShort) {
  write(kRows);
  for (std::size_t size = std::filesystem::file_size(path_); size-- > 0;) {
    std::filesystem::resize_file(path_, size);
    EXPECT_MENTIONS(message_of([&] { (void)rows({text_}); }), "cannot be read as Parquet: ") << size;
  }
}

}  // namespace
}  // namespace echelon::data
