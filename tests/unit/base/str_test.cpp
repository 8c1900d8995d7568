#include "base/str.h"

#include <gtest/gtest.h>

#include <limits>

namespace echelon {
namespace {

TEST(Str, JoinsWhatIsStreamed) {
  EXPECT_EQ(str("step ", 4, " of ", 2.5, '!'), "step 4 of 2.5!");
}

TEST(Str, JoinPutsSeparatorsBetween) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
}

TEST(Str, ReplaceAllGoesFromTheBegin) {
  EXPECT_EQ(replace_all("", "a", "b"), "");
  EXPECT_EQ(replace_all("a \"b\"", "\"", "\"\""), "a \"\"b\"\"");
  EXPECT_EQ(replace_all("aaa", "aa", "b"), "ba");
}

TEST(Str, HumanBytesPicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 103), "1023.9 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16384.0 PiB");
}

TEST(Str, HumanCountGroupsDigits) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(12345678), "12,345,678");
  EXPECT_EQ(human_count(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(Str, PrintableLeavesNothingThatBreaksALine) {
  EXPECT_EQ(printable("model/w.0 ~"), "model/w.0 ~");
  EXPECT_EQ(printable(std::string_view("a\n\0\x7f\xff", 5)), "a\\x0a\\x00\\x7f\\xff");
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
}

TEST(Str, EditDistanceCountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(Str, NearestNamesWhatWasMeant) {
  const std::vector<std::string> keys{"weight_decay", "warmup_steps", "lr", "betas", "eps"};
  EXPECT_EQ(nearest("wieght_decay", keys), "weight_decay");
  EXPECT_EQ(nearest("warmup_step", keys), "warmup_steps");
  EXPECT_EQ(nearest("beta", keys), "betas");
  EXPECT_EQ(nearest("betas", keys), "betas");
  EXPECT_EQ(nearest("zzzzzzzzzzzz", keys), "");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(Str, NearestDoesNotReplaceEveryLetterOfAShortName) {
  EXPECT_EQ(nearest("xy", {"lr"}), "");
}

}  // namespace
}  // namespace echelon
