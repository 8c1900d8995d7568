#include "run/start_notes.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace echelon {
namespace {

constexpr const char* kTwoStarts =
    "start 0 1000.125\n"
    "end 85 1090.500\n"
    "held 1090.600\n"
    "start 30 2000.125\n"
    "end 7 2050.250\n"
    "start 40 3000.125\n";

TEST(StartNotes, TellTheEndOfTheStartThatRan) {
  EXPECT_EQ(noted_end(kTwoStarts, 1089), 1090.5);
  EXPECT_EQ(noted_end(kTwoStarts, 1090.5), 1090.5);
  EXPECT_EQ(noted_end(kTwoStarts, 2000.125), 2050.25);
}

TEST(StartNotes, KnowNoEndThatIsNotTheStartsOwn) {
  EXPECT_EQ(noted_end(kTwoStarts, 999), std::nullopt) << "before all of them";
  EXPECT_EQ(noted_end(kTwoStarts, 1500), std::nullopt) << "the end is before it";
  EXPECT_EQ(noted_end(kTwoStarts, 3100), std::nullopt) << "that one still runs";
  EXPECT_EQ(noted_end("start 0 1000\nstart 0 2000\nend 85 2100\n", 1200), std::nullopt)
      << "killed together with its script";
  EXPECT_EQ(noted_end("end 85 1100\n", 1000), std::nullopt);
  EXPECT_EQ(noted_end("", 1000), std::nullopt);
}

TEST(StartNotes, BelieveNoTornLine) {
  for (const char* torn : {"end 85 1764", "end 85\n", "end\n", "end 85 soon\n", "end 85 1100 x\n",
                           "nd 85 1100\n", "end 85 11start 10 1200\nend 85 1300\n", "\nend 85 1100\n"})
    EXPECT_EQ(noted_end(std::string("start 0 1000\n") + torn, 1050), std::nullopt) << torn;
  EXPECT_EQ(noted_end("start 0 10start 0 1000\nend 85 1100\n", 1050), std::nullopt);
}

TEST(StartNotes, AreInTheFileOfTheJob) {
  const test::TempDir run;
  EXPECT_EQ(noted_end(run.path(), "12", 1050), std::nullopt) << "no folder";
  std::filesystem::create_directory(run.path() / "logs");
  EXPECT_EQ(noted_end(run.path(), "12", 1050), std::nullopt) << "no file";
  std::ofstream(run.path() / "logs/starts-12.txt") << kTwoStarts;
  EXPECT_EQ(noted_end(run.path(), "12", 1050), 1090.5);
  EXPECT_EQ(noted_end(run.path(), "12_0", 1050), std::nullopt) << "another job's";
  std::filesystem::create_directory(run.path() / "logs/starts-13.txt");
  EXPECT_EQ(noted_end(run.path(), "13", 1050), std::nullopt) << "cannot be read";
}

}  // namespace
}  // namespace echelon
