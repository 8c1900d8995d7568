#include "base/number.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

std::string integer_problem(const std::string& text) {
  std::int64_t value = 0;
  return read_integer(text, value);
}

std::string number_problem(const std::string& text) {
  double value = 0;
  return read_number(text, value);
}

TEST(Number, ReadsOneNotation) {
  std::int64_t whole = 0;
  EXPECT_EQ(read_integer("-9223372036854775808", whole), "");
  EXPECT_EQ(whole, INT64_MIN);
  EXPECT_EQ(read_integer("+17", whole), "");
  EXPECT_EQ(whole, 17);
  double number = 0;
  EXPECT_EQ(read_number("-2.5e-3", number), "");
  EXPECT_EQ(number, -2.5e-3);
}

TEST(Number, RefusesWhatIsNotFiniteOrNotDecimal) {
  for (const char* text : {"nan", "NaN", "-nan", ".nan", "inf", "-Infinity"}) {
    EXPECT_EQ(number_problem(text), "is not a finite number") << text;
    EXPECT_EQ(integer_problem(text), "is not a finite number") << text;
  }
  EXPECT_EQ(integer_problem("0x10"), "is not decimal; write it in decimal digits");
  EXPECT_EQ(integer_problem("1_000"), "has a '_' in it; write the digits without separators");
  EXPECT_EQ(integer_problem("010"),
            "starts with 0, which some parsers read as octal; write it without leading zeros");
  EXPECT_EQ(integer_problem("99999999999999999999999"), "does not fit in 64 bits");
  EXPECT_EQ(integer_problem("1e3"), "is not written as an integer; write 1000");
  EXPECT_EQ(integer_problem("1.5"), "is not an integer");
  EXPECT_EQ(integer_problem("1e999"), "is not an integer");
  for (const char* text : {"", " 1", "1 ", "1'000", "two", "--1", "1e"}) {
    EXPECT_NE(integer_problem(text), "") << text;
    EXPECT_NE(number_problem(text), "") << text;
  }
  EXPECT_EQ(number_problem("1e999"), "cannot be held in double precision");
}

TEST(Number, OfBytesHasAUnit) {
  const std::pair<const char*, double> good[] = {{"1B", 1},         {"1073741824b", 1073741824.0},
                                                 {"1GiB", 1 << 30}, {"1.5GB", 1.5e9},
                                                 {"2kb", 2000},     {"3 MiB", 0},
                                                 {"4k", 4000},      {"0.5Ti", 0.5 * 1024.0 * (1 << 30)}};
  for (const auto& [text, expected] : good) {
    double value = -1;
    const std::string problem = read_bytes(text, value);
    EXPECT_EQ(problem.empty(), expected > 0) << text << ": " << problem;
    if (expected > 0) {
      EXPECT_DOUBLE_EQ(value, expected) << text;
    }
  }
  for (const char* text : {"", "GiB", "0", "-1GB", "1XB", "1GiBi", "ten", "1KKB", "nan"}) {
    double value = 0;
    EXPECT_NE(read_bytes(text, value), "") << text;
  }
  double value = 0;
  EXPECT_EQ(read_bytes("16", value), "has no unit; expected such as 16GiB, 16GB or 16B");
}

TEST(Number, IsWrittenWithDigitsBehindThePoint) {
  EXPECT_EQ(fixed(2, 1), "2.0");
  EXPECT_EQ(fixed(-0.126, 2), "-0.13");
  EXPECT_EQ(fixed(1e15, 0), "1000000000000000");
}

TEST(Words, LoseBlanksAtTheirEndsAndFillAColumn) {
  EXPECT_EQ(words_in(" a bc  d "), (std::vector<std::string_view>{"a", "bc", "d"}));
  EXPECT_TRUE(has_word(" a bc  d ", "bc"));
  for (const char* none : {"", "b", "a bc"}) EXPECT_FALSE(has_word(" a bc  d ", none)) << none;
  EXPECT_EQ(trimmed("\t a b \r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(padded("ab", 4), "ab  ");
  EXPECT_EQ(padded("abcd", 4), "abcd ");
}

}  // namespace
}  // namespace echelon
