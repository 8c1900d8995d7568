#include "base/foreign_json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/str.h"
#include "support/refusal.h"

namespace echelon {
namespace {

std::string problem(const std::string& text, const JsonLimits& limits = {}) {
  return read_foreign_json(text, limits).problem;
}

TEST(ForeignJson, ReadsAValue) {
  const auto value = parse_foreign_json(R"({"a":[1,-2,0.5,null,true,"x"],"b":{}})", "t", Code::kData);
  EXPECT_EQ(value, nlohmann::json::parse(R"({"a":[1,-2,0.5,null,true,"x"],"b":{}})"));
}

TEST(ForeignJson, KeepsTheOrderOfKeysWhereAsked) {
  const std::string text = R"({"b":1,"a":{"d":[2],"c":3}})";
  EXPECT_EQ(parse_ordered_json(text, "t", Code::kData).dump(), text);
  EXPECT_THROW((void)parse_ordered_json(R"({"b":1,"b":2})", "t", Code::kData), Error);
  std::string keys = "{\"k\":1";
  for (int i = 1; i < 1024; ++i) keys += str(",\"", i, "\":1");
  EXPECT_EQ(parse_ordered_json(keys + "}", "t", Code::kData).size(), 1024U);
  EXPECT_THROW((void)parse_ordered_json(keys + ",\"x\":1}", "t", Code::kData), Error);
}

TEST(ForeignJson, RefusesWhatIsNotJson) {
  EXPECT_EQ(
      problem("{"),
      "not valid JSON at byte 2: syntax error while parsing object key - unexpected end of input; expected "
      "string literal");
  EXPECT_NE(problem(""), "");
  EXPECT_NE(problem("{} {}"), "");
  EXPECT_NE(problem("\"\xFF\""), "");
  EXPECT_NE(problem(std::string("1\0", 2)), "");
  EXPECT_EQ(problem("\xEF\xBB\xBF{}"), "it begins with a byte order mark; save it as UTF-8 without one");
  EXPECT_EQ(problem("[1e999]").rfind("number out of range", 0), 0U);
}

TEST(ForeignJson, ItsProblemsAreSafeToShow) {
  for (const std::string text : {"[\"\x9B\"]", "{\"a\": \x1b[2J}", "\"\xC2\x9B", "{\"\x7f\":1,\"\x7f\":2}"}) {
    const std::string shown = problem(text);
    EXPECT_NE(shown, "");
    EXPECT_EQ(shown.find_first_of("\x1b\x7f\x9b\n"), std::string::npos) << shown;
  }
}

TEST(ForeignJson, KeepsItsLimits) {
  EXPECT_EQ(problem(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_EQ(problem(std::string(33, '[') + std::string(33, ']')), "nested deeper than 32 levels");
  EXPECT_EQ(problem(std::string(10'000'000, '[')), "nested deeper than 32 levels");
  std::string objects;
  for (int i = 0; i < 60'000; ++i) objects += R"({"a":)";
  EXPECT_EQ(problem(objects), "nested deeper than 32 levels");
  EXPECT_EQ(problem("[1,2]", {.depth = 1}), "");
  EXPECT_EQ(problem("[1,2]", {.bytes = 4}), "5 bytes, expected at most 4");
}

TEST(ForeignJson, KeepsIntegersExactlyWhereAsked) {
  const std::string largest = "[18446744073709551615,-9223372036854775808,1e30,0.1]";
  EXPECT_EQ(problem(largest, {.exact_integers = true}), "");
  EXPECT_EQ(problem("[18446744073709551616]", {.exact_integers = true}),
            "integer 18446744073709551616 has more than 64 bits; write it as a text");
  EXPECT_EQ(problem("[18446744073709551616]"), "") << "tokenizer_config.json has such lengths";
}

TEST(ForeignJson, AKeyComesOnce) {
  EXPECT_EQ(problem(R"({"a":1,"a":2})"), "key 'a' appears twice in one object");
  EXPECT_EQ(read_foreign_json(R"({"a":1,"a":2})", {.unique_keys = false}).value["a"], 2);
}

TEST(ForeignJson, GivesMembersAwayOneByOne) {
  const auto members_of = [](const std::string& text, std::string& problem) {
    std::string members;
    problem = read_members(text,
                           [&](const std::string& name, const nlohmann::json& value) {
                             members += str(name, '=', value.dump(), ';');
                             return value == "bad" ? std::string("no") : std::string();
                           },
                           {.depth = 3});
    return members;
  };
  std::string problem;
  EXPECT_EQ(members_of(R"({"a":[{"b":1},2],"c":{},"a":null})", problem), R"(a=[{"b":1},2];c={};a=null;)");
  EXPECT_EQ(problem, "");
  EXPECT_EQ(members_of(R"({"a":1,"b":"bad","c":2})", problem), R"(a=1;b="bad";)");
  EXPECT_EQ(problem, "no");
  std::string long_list = "1";
  for (std::size_t i = 1; i < kMostValues - 1; ++i) long_list += ",1";
  EXPECT_NE(members_of(str("{\"a\":[", long_list, "],\"b\":[", long_list, "]}"), problem), "");
  EXPECT_EQ(problem, "");
  EXPECT_EQ(members_of(str("{\"a\":[", long_list, ",1]}"), problem), "");
  EXPECT_EQ(problem, str("more than ", kMostValues, " values in one member"));
}

TEST(ForeignJson, AnErrorNamesTheSource) {
  EXPECT_TRUE(test::refusal(Code::kCheckpoint, [] {
                (void)parse_foreign_json("[", "'config.json'", Code::kCheckpoint);
              }).starts_with("'config.json': not valid JSON at byte "));
}

}  // namespace
}  // namespace echelon
