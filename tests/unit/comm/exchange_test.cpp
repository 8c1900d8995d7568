#include "comm/exchange.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace echelon {
namespace {

enum class Choice : std::uint8_t { kFirst, kSecond };

struct Inner {
  std::vector<std::string> texts;
  Choice kind = Choice::kFirst;
  auto fields() { return std::tie(texts, kind); }
  bool operator==(const Inner&) const = default;
};

struct Outer {
  std::int64_t number = 0;
  std::map<std::string, Inner> inner;
  std::vector<std::vector<int>> lists;
  auto fields() { return std::tie(number, inner, lists); }
  bool operator==(const Outer&) const = default;
};

TEST(Exchange, ArrivesAsItWasSent) {
  const Outer sent{
      .number = -7,
      .inner = {{"", {}}, {"a", {.texts = {std::string("x\0y\n", 4), ""}, .kind = Choice::kSecond}}},
      .lists = {{}, {1, -2}}};
  EXPECT_EQ(unpacked<Outer>(packed(sent)), sent);
  EXPECT_EQ(unpacked<Outer>(packed(Outer{})), Outer{});
  EXPECT_EQ(unpacked<bool>(packed(true)), true);
}

TEST(Exchange, BytesOfAnotherTypeAreRefused) {
  const Blob whole = packed(Outer{.inner = {{"name", {.texts = {"text"}}}}, .lists = {{1, 2}}});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(
        (void)unpacked<Outer>(Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), Error);
  Blob longer = whole;
  longer.push_back({});
  EXPECT_THROW((void)unpacked<Outer>(longer), Error);
  EXPECT_THROW((void)unpacked<std::string>(packed(std::size_t{1} << 60)), Error);
  EXPECT_THROW((void)unpacked<std::vector<std::string>>(packed(std::size_t{1} << 60)), Error);
}

}  // namespace
}  // namespace echelon
