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

}  // namespace
}  // namespace echelon
