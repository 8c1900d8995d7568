#include "run/agreed_stop.h"

#include <gtest/gtest.h>

#include <csignal>

#include "comm/local_communicator.h"

namespace echelon {
namespace {

TEST(AgreedStop, IsDecidedByAVoteOfAnyRankAndForGood) {
  const StopSignal signal;
  LocalCommunicator comm;
  AgreedStop stop(signal, comm);
  EXPECT_EQ(stop.vote(), 0);
  EXPECT_FALSE(stop.decide(0));
  EXPECT_TRUE(stop.decide(1));
  EXPECT_EQ(stop.reason(), "a signal to another rank");
  EXPECT_TRUE(stop.decide(0));
}

TEST(AgreedStop, SaysWhichSignalItWas) {
  for (const auto& [number, name] : {std::pair{SIGTERM, "SIGTERM"}, {SIGUSR2, "SIGUSR2"}}) {
    const StopSignal signal;
    LocalCommunicator comm;
    AgreedStop stop(signal, comm);
    EXPECT_FALSE(stop.look());
    raise(number);
    EXPECT_TRUE(stop.look());
    EXPECT_EQ(stop.reason(), name);
    EXPECT_EQ(stop.is_being_ended(), number == SIGTERM);
  }
}

TEST(AgreedStop, ASignalWithinALookCountsInTheNext) {
  const StopSignal signal;
  LocalCommunicator comm;
  AgreedStop stop(signal, comm);
  stop.begin_look();
  raise(SIGTERM);
  EXPECT_FALSE(stop.end_look());
  EXPECT_TRUE(stop.look());
}

TEST(AgreedStop, TheClockHasAVoteToo) {
  const StopSignal signal;
  LocalCommunicator comm;
  std::string reason;
  AgreedStop stop(signal, comm, [&] { return reason; });
  stop.request("");
  EXPECT_FALSE(stop.look());
  reason = "the job ends";
  EXPECT_TRUE(stop.look());
  EXPECT_EQ(stop.reason(), "the job ends");
  EXPECT_FALSE(stop.is_being_ended());
}

}  // namespace
}  // namespace echelon
