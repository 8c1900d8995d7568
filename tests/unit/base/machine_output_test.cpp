#include "base/terminal/machine_output.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace echelon {
namespace {

const Error kBad(Code::kData, "bad");

/// What a command that prints `own` and then fails leaves on standard output.
std::string output_of_failure(const std::vector<std::string>& words, const std::string& own,
                              const Error& error) {
  std::ostringstream captured;
  std::streambuf* const before = std::cout.rdbuf(captured.rdbuf());
  {
    MachineOutput output(words);
    std::cout << own << std::flush;
    output.report(error);
  }
  std::cout.rdbuf(before);
  return captured.str();
}

TEST(MachineOutput, TellsProgramsOfAFailureInOneObject) {
  const auto object = nlohmann::json::parse(
      output_of_failure({"ls", "--json", "x"}, "", Error(Code::kData, "bad \xFF \"x\"\nand y")));
  EXPECT_EQ(object, nlohmann::json::parse(R"({"error": {"code": 4, "message": "bad \ufffd \"x\"\nand y"}})"));
  EXPECT_EQ(output_of_failure({"ls", "x"}, "", kBad), "");
  EXPECT_EQ(output_of_failure({"run", "--", "--json"}, "", kBad), "") << "a text, not the option";
  EXPECT_NE(output_of_failure({"evaluate", "--json=true"}, "", kBad), "") << "as local ranks are started";
  EXPECT_EQ(output_of_failure({"verify", "--json"}, "{}\n", kBad), "{}\n")
      << "the command's own report stands";
  EXPECT_EQ(output_of_failure({"doctor", "--json"}, "", Error::already_reported(Code::kData)), "")
      << "another rank told";
}

TEST(MachineOutput, LeavesTheReportToTheFirstRank) {
  ::setenv("PMIX_RANK", "1", 1);
  EXPECT_EQ(output_of_failure({"doctor", "--json"}, "", kBad), "");
  ::setenv("PMIX_RANK", "0", 1);
  EXPECT_NE(output_of_failure({"doctor", "--json"}, "", kBad), "");
  ::unsetenv("PMIX_RANK");
}

}  // namespace
}  // namespace echelon
