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

/// When all ranks had exited.
std::optional<double> end_of(std::string_view notes, double running_s) {
  const auto noted = noted_end(notes, running_s);
  return noted ? std::optional(noted->gone_s) : std::nullopt;
}

std::optional<double> end_of(const std::filesystem::path& run, const std::string& job, double running_s) {
  const auto noted = noted_end(run, job, running_s);
  return noted ? std::optional(noted->gone_s) : std::nullopt;
}

TEST(StartNotes, TellTheEndOfTheStartThatRan) {
  EXPECT_EQ(end_of(kTwoStarts, 1089), 1090.5);
  EXPECT_EQ(end_of(kTwoStarts, 1090.5), 1090.5);
  EXPECT_EQ(end_of(kTwoStarts, 2000.125), 2050.25);
}

TEST(StartNotes, KnowNoEndThatIsNotTheStartsOwn) {
  EXPECT_EQ(end_of(kTwoStarts, 999), std::nullopt) << "before all of them";
  EXPECT_EQ(end_of(kTwoStarts, 1500), std::nullopt) << "the end is before it";
  EXPECT_EQ(end_of(kTwoStarts, 3100), std::nullopt) << "that one still runs";
  EXPECT_EQ(end_of("start 0 1000\nstart 0 2000\nend 85 2100\n", 1200), std::nullopt)
      << "killed together with its script";
  EXPECT_EQ(end_of("end 85 1100\n", 1000), std::nullopt);
  EXPECT_EQ(end_of("", 1000), std::nullopt);
}

TEST(StartNotes, KnowWhenRanksWereLostAndStartedAgainInPlace) {
  constexpr const char* kInPlace =
      "start 0 1000\n"
      "lost 22 5 n2 1050.5\n"
      "end 7 1051\n"
      "restart 20 1051.1\n"
      "lost - - - 1060\n"
      "end 137 1061\n"
      "restart 20 1062\n"
      "end 85 1090\n";
  EXPECT_EQ(end_of(kInPlace, 1049), 1051);
  EXPECT_EQ(noted_end(kInPlace, 1049)->lost_s, 1050.5);
  EXPECT_EQ(end_of(kInPlace, 1055), 1061);
  EXPECT_EQ(noted_end(kInPlace, 1055)->lost_s, 1060);
  EXPECT_EQ(end_of(kInPlace, 1070), 1090);
  EXPECT_EQ(noted_end(kInPlace, 1070)->lost_s, std::nullopt) << "none of that start";
  EXPECT_EQ(noted_end("start 0 1000\nlost 22 5 1050\nend 7 1051\n", 1049), std::nullopt) << "torn";
}

TEST(StartNotes, BelieveNoTornLine) {
  for (const char* torn : {"end 85 1764", "end 85\n", "end\n", "end 85 soon\n", "end 85 1100 x\n",
                           "nd 85 1100\n", "end 85 11start 10 1200\nend 85 1300\n", "\nend 85 1100\n"})
    EXPECT_EQ(end_of(std::string("start 0 1000\n") + torn, 1050), std::nullopt) << torn;
  EXPECT_EQ(end_of("start 0 10start 0 1000\nend 85 1100\n", 1050), std::nullopt);
}

TEST(StartNotes, AreReadAsTheyWereWritten) {
  constexpr std::string_view kAll =
      "start 0 1000.125\n"
      "lost 22 5 n2 1050.500\n"
      "lost - - - 1051.000\n"
      "restart 20 1052.000\n"
      "end 85 1090.000\n"
      "left-out n2 1090.001\n"
      "held 1091.999\n";
  std::string written;
  for (const StartNote& note : start_notes(kAll)) written += to_line(note);
  EXPECT_EQ(written, kAll);
  const auto notes = start_notes(kAll);
  EXPECT_FALSE(notes[0].in_place);
  EXPECT_TRUE(notes[3].in_place);
  EXPECT_EQ(notes[1].rank, 5);
  EXPECT_EQ(notes[2].rank, -1);
  EXPECT_EQ(notes[2].node, "");
  EXPECT_EQ(notes[4].code, 85);
  EXPECT_EQ(notes[5].node, "n2");
}

TEST(StartNotes, AreInTheFileOfTheJob) {
  const test::TempDir run;
  EXPECT_EQ(end_of(run.path(), "12", 1050), std::nullopt) << "no folder";
  std::filesystem::create_directory(run.path() / "logs");
  EXPECT_EQ(end_of(run.path(), "12", 1050), std::nullopt) << "no file";
  std::ofstream(run.path() / "logs/starts-12.txt") << kTwoStarts;
  EXPECT_EQ(end_of(run.path(), "12", 1050), 1090.5);
  EXPECT_EQ(end_of(run.path(), "12_0", 1050), std::nullopt) << "another job's";
  std::filesystem::create_directory(run.path() / "logs/starts-13.txt");
  EXPECT_EQ(end_of(run.path(), "13", 1050), std::nullopt) << "cannot be read";
}

}  // namespace
}  // namespace echelon
