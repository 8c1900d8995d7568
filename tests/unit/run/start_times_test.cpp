#include "run/start_times.h"

#include <gtest/gtest.h>

#include <string>

#include "base/process/process.h"
#include "support/matches.h"
#include "support/variable.h"

namespace echelon {
namespace {

TEST(StartTimes, AreThoseOfThePhasesInTheirOrder) {
  const test::Variable none("ECHELON_STARTED_AT", std::nullopt);
  StartTimes times;
  times.done("data");
  EXPECT_TRUE(
      test::matches(times.describe(), "start: libraries [0-9.e-]+ s, data [0-9.e-]+; [0-9.e-]+ s in all"))
      << times.describe();
}

TEST(StartTimes, BeginWithTheBatchScriptsStart) {
  test::Variable started("ECHELON_STARTED_AT", std::to_string(process_began_s() - 7));
  const std::string told = StartTimes().describe();
  started.set(std::to_string(process_began_s() + 7));
  const std::string later = StartTimes().describe();
  EXPECT_EQ(told.substr(0, told.find(',')), "start: launch 7 s");
  EXPECT_FALSE(test::mentions(later, "launch")) << "a clock that goes wrong: " << later;
}

}  // namespace
}  // namespace echelon
