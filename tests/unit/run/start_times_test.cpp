#include "run/start_times.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/process/process.h"
#include "support/matches.h"

namespace echelon {
namespace {

TEST(StartTimes, AreThoseOfThePhasesInTheirOrder) {
  ::unsetenv("ECHELON_STARTED_AT");
  StartTimes times;
  times.done("data");
  EXPECT_TRUE(
      test::matches(times.describe(), "start: libraries [0-9.e-]+ s, data [0-9.e-]+; [0-9.e-]+ s in all"))
      << times.describe();
}

TEST(StartTimes, BeginWithTheBatchScriptsStart) {
  ::setenv("ECHELON_STARTED_AT", std::to_string(process_began_s() - 7).c_str(), 1);
  const std::string told = StartTimes().describe();
  ::setenv("ECHELON_STARTED_AT", std::to_string(process_began_s() + 7).c_str(), 1);
  const std::string later = StartTimes().describe();
  ::unsetenv("ECHELON_STARTED_AT");
  EXPECT_EQ(told.substr(0, told.find(',')), "start: launch 7 s");
  EXPECT_FALSE(test::mentions(later, "launch")) << "a clock that goes wrong: " << later;
}

}  // namespace
}  // namespace echelon
