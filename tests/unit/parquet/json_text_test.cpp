#include "data/parquet/json_text.h"

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>

namespace echelon::data {
namespace {

std::string written(const arrow::Array& values) {
  JsonText json;
  for (std::int64_t at = 0; at < values.length(); ++at) {
    if (at > 0) json.add(" ");
    json.add_value(values, at);
  }
  EXPECT_EQ(json.fault(), "");
  return json.text();
}

std::shared_ptr<arrow::Array> array_of(const std::shared_ptr<arrow::DataType>& type,
                                       const std::string& json) {
  EXPECT_EQ(type_without_json(*type), "");
  return arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
}

std::string written(const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
  return written(*array_of(type, json));
}

TEST(JsonText, WritesNumbersSoThatTheyKeepTheirKind) {
  for (const auto& type : {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64()})
    EXPECT_EQ(written(type, "[-128, 0, null, 127]"), "-128 0 null 127");
  for (const auto& type : {arrow::uint8(), arrow::uint16(), arrow::uint32(), arrow::uint64()})
    EXPECT_EQ(written(type, "[0, 255]"), "0 255");
  EXPECT_EQ(written(arrow::uint64(), "[18446744073709551615]"), "18446744073709551615");
  EXPECT_EQ(written(arrow::float64(), "[1, -0.0, 0.1, 1e300, 5e-324, null]"),
            "1.0 -0.0 0.1 1e+300 5e-324 null");
  EXPECT_EQ(written(arrow::float32(), "[0.5, 0.1]"), "0.5 0.10000000149011612");
  EXPECT_EQ(written(arrow::float64(), "[NaN, Inf, -Inf]"), "null null null");
  EXPECT_EQ(written(arrow::boolean(), "[true, false, null]"), "true false null");
  EXPECT_EQ(written(arrow::null(), "[null, null]"), "null null");
}

TEST(JsonText, WritesTextsOfEveryType) {
  const std::string texts = R"(["plain", "\"\\/", "\n\u0000\u001f", "ä日🙂", "", null])";
  const std::string expected = R"("plain" "\"\\/" "\u000a\u0000\u001f" "ä日🙂" "" null)";
  for (const auto& type : {arrow::utf8(), arrow::large_utf8(), arrow::utf8_view(), arrow::binary(),
                           arrow::large_binary(), arrow::binary_view()})
    EXPECT_EQ(written(type, texts), expected) << type->ToString();
  EXPECT_EQ(written(arrow::dictionary(arrow::int8(), arrow::utf8()), R"(["a", "b", "a", null])"),
            R"("a" "b" "a" null)");
}

TEST(JsonText, WritesListsMapsAndStructs) {
  const std::string lists = "[[1, null], [], null, [2, 3]]";
  for (const auto& type : {arrow::list(arrow::int32()), arrow::large_list(arrow::int32()),
                           arrow::list_view(arrow::int32()), arrow::large_list_view(arrow::int32())}) {
    EXPECT_EQ(written(type, lists), "[1, null] [] null [2, 3]") << type->ToString();
    EXPECT_EQ(written(*array_of(type, lists)->Slice(1)), "[] null [2, 3]") << type->ToString();
  }
  EXPECT_EQ(written(*array_of(arrow::fixed_size_list(arrow::int32(), 2), "[[1, 2], null, [3, 4]]")->Slice(1)),
            "null [3, 4]");
  const auto map = arrow::map(arrow::utf8(), arrow::int32());
  EXPECT_EQ(written(*array_of(map, R"([[["a", 1]], [["b", null], ["c", 2]], [], null])")->Slice(1)),
            R"([["b", null], ["c", 2]] [] null)");
  const auto object =
      arrow::struct_({arrow::field("x y", arrow::utf8()), arrow::field("\"", arrow::list(arrow::int8()))});
  EXPECT_EQ(written(*array_of(object, R"([["a", [1]], ["b", null], null, [null, []]])")->Slice(1)),
            R"({"x y": "b", "\"": null} null {"x y": null, "\"": []})");
}

TEST(JsonText, TellsWhatJsonDoesNotHave) {
  EXPECT_EQ(type_without_json(*arrow::date32()), "date32[day]");
  EXPECT_EQ(type_without_json(*arrow::list(arrow::struct_({arrow::field("x", arrow::decimal128(5, 2))}))),
            "decimal128(5, 2)");
  EXPECT_EQ(type_without_json(*arrow::dictionary(arrow::int8(), arrow::duration(arrow::TimeUnit::SECOND))),
            "duration[s]");
  EXPECT_EQ(type_without_json(*arrow::fixed_size_binary(16)), "fixed_size_binary[16]");
}

TEST(JsonText, FindsBytesThatAreNotUtf8) {
  JsonText json;
  json.add_string("\xC3\xA4 \xFF");
  EXPECT_EQ(json.fault(), "not UTF-8 at byte 3 of 'ä \\xff'");
  json.clear();
  json.add_string("good");
  EXPECT_EQ(json.fault(), "");
  EXPECT_EQ(json.text(), "\"good\"");
}

}  // namespace
}  // namespace echelon::data
