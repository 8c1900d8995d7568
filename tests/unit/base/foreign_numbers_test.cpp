#include "base/foreign_numbers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace echelon {
namespace {

constexpr std::size_t kMost = 4096;

std::string told(std::string_view text) {
  ForeignNumbers numbers;
  std::string all = numbers.read(text, kMost);
  for (const ForeignNumbers::Number& number : numbers.numbers())
    all += std::string(numbers.name(number)) + "=" +
           (std::isnan(number.value) ? "null" : std::to_string(number.value)) + ";";
  return all;
}

TEST(ForeignNumbers, AreNamedByTheKeysThatLeadToThem) {
  EXPECT_EQ(told(R"({"a": 1, "b": {"c": -2.5, "d": {"e": 3}}, "f": null, "g": true, "h": "x"})"),
            "a=1.000000;b.c=-2.500000;b.d.e=3.000000;f=null;");
  EXPECT_EQ(told(R"({"a": [1, {"b": 2}, [3]], "c": 4})"), "c=4.000000;");
  EXPECT_EQ(told("{}"), "");
}

TEST(ForeignNumbers, OfAnotherTextEndWithTheProblem) {
  using namespace std::string_literals;
  for (const std::string& text :
       {"7"s, "[1]"s, "null"s, "\"x\""s, ""s, "{\"a\": 1} 2"s, "{\"a\": 1"s, "{\"a\": nan}"s,
        "{\"a\": 1e400}"s, "{\"a\0\": 1}"s, "{\"a\": \"\xff\"}"s, std::string(kMost + 1, ' ')}) {
    ForeignNumbers numbers;
    EXPECT_NE(numbers.read(text, kMost), "") << text.substr(0, 40);
  }
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "{\"a\":";
  ForeignNumbers numbers;
  EXPECT_EQ(numbers.read(deep, kMost), "nested deeper than 8 levels");
}

TEST(ForeignNumbers, AreThoseOfTheLastText) {
  ForeignNumbers numbers;
  EXPECT_EQ(numbers.read("{\"a\": 1, \"b\": 2}", kMost), "");
  EXPECT_EQ(numbers.read("{\"c\": 3}", kMost), "");
  ASSERT_EQ(numbers.numbers().size(), 1U);
  EXPECT_EQ(numbers.name(numbers.numbers()[0]), "c");
}

}  // namespace
}  // namespace echelon
