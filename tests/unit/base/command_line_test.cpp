#include "base/terminal/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/refusal.h"

namespace echelon {
namespace {

/// A program with a number of each kind, and commands below commands.
struct Program {
  Program() {
    app.require_subcommand(1);
    CLI::App* draw = app.add_subcommand("draw");
    draw->add_option("--share", share)->check(CLI::Range(0.0, 1.0));
    draw->add_option("--shift", shift);
    draw->add_option("--seed", seed)->capture_default_str();
    draw->add_option("--keep", keep);
    draw->add_option("--name", name);
    CLI::App* list = app.add_subcommand("list");
    list->require_subcommand(1);
    list->add_subcommand("all");
    list->add_subcommand("some");
    read_numbers_strictly(app);
  }
  std::string refusal(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }
  CLI::App app{"", "tool"};
  double share = 0;
  int shift = 0;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> keep;
  std::string name;
};

TEST(CommandLine, TakesNumbersInDecimalDigits) {
  Program program;
  EXPECT_EQ(program.refusal({"draw", "--share", "0.25", "--shift=-3", "--seed", "9223372036854775807",
                             "--keep", "1", "--keep", "2", "--name", "nan"}),
            "");
  EXPECT_EQ(program.share, 0.25);
  EXPECT_EQ(program.shift, -3);
  EXPECT_EQ(program.seed, 9223372036854775807U);
  EXPECT_EQ(program.keep, (std::vector<std::int64_t>{1, 2}));
}

TEST(CommandLine, RefusesWhatARecipeRefuses) {
  EXPECT_EQ(Program().refusal({"draw", "--share", "nan"}), "--share: 'nan' is not a finite number");
  EXPECT_EQ(Program().refusal({"draw", "--share", "0x0p0"}),
            "--share: '0x0p0' is not decimal; write it in decimal digits");
  EXPECT_EQ(Program().refusal({"draw", "--seed=-1"}), "--seed: '-1' is below 0");
  EXPECT_EQ(Program().refusal({"draw", "--seed", "100000000000000000000000"}),
            "--seed: '100000000000000000000000' does not fit in 64 bits");
  EXPECT_EQ(Program().refusal({"draw", "--shift", "two"}), "--shift: 'two' is not an integer");
  EXPECT_EQ(Program().refusal({"draw", "--keep", "1", "--keep", "1e3"}),
            "--keep: '1e3' is not written as an integer; write 1000");
  EXPECT_NE(Program().refusal({"draw", "--shift", "5000000000"}), "") << "more than an int holds";
  EXPECT_NE(Program().refusal({"draw", "--share", "1.5"}), "") << "ranges count as before";
}

std::string command_fault(const std::vector<std::string>& words) {
  return test::refusal(Code::kUsage, [&] { check_commands(Program().app, words); });
}

TEST(CommandLine, NamesTheCommandThatDoesNotExist) {
  EXPECT_EQ(command_fault({}), "no command given; there are draw, list; try 'tool --help'");
  EXPECT_EQ(command_fault({"drwa"}), "no command 'drwa'; did you mean 'draw'?");
  EXPECT_EQ(command_fault({"frobnicate"}),
            "no command 'frobnicate'; there are draw, list; try 'tool --help'");
  EXPECT_EQ(command_fault({"list"}), "list needs a command; there are all, some; try 'tool list --help'");
  EXPECT_EQ(command_fault({"list", "som"}), "no command 'list som'; did you mean 'list some'?");
  EXPECT_EQ(command_fault({"list", "\x1b[2J"}),
            "no command 'list \\x1b[2J'; there are all, some; try 'tool list --help'");
  EXPECT_EQ(command_fault({"draw", "list"}), "accepted");
  EXPECT_EQ(command_fault({"list", "all", "x"}), "accepted");
  EXPECT_EQ(command_fault({"list", "--help"}), "accepted");
  EXPECT_EQ(command_fault({"--version"}), "accepted");
}

}  // namespace
}  // namespace echelon
