#include "train/save/next_action.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

using Report = SaveReport::State;
using State = SaveOutcome::State;
using Kind = NextAction::Kind;

/// Three ranks in these states; a rank that failed or hangs says "rank N".
SaveOutcome of(Report rank0, Report rank1, Report rank2) {
  std::vector<SaveReport> reports;
  for (const Report state : {rank0, rank1, rank2}) {
    SaveReport report{.state = state};
    if (state == Report::kFailed || state == Report::kHanging)
      report.error = "rank " + std::to_string(reports.size());
    reports.push_back(report);
  }
  return outcome_of(reports);
}

TEST(SaveOutcome, FollowsFromTheReportsOfAllRanks) {
  constexpr auto kNone = Report::kNone;
  constexpr auto kWriting = Report::kWriting;
  constexpr auto kHanging = Report::kHanging;
  constexpr auto kFailed = Report::kFailed;
  constexpr auto kDone = Report::kDone;
  constexpr auto kUncertain = Report::kUncertain;
  const struct {
    Report ranks[3];
    State state;
    const char* error;
    const char* doubt;
  } table[] = {
      {{kNone, kNone, kNone}, State::kNone, "", ""},
      {{kDone, kDone, kDone}, State::kCommitted, "", ""},
      {{kUncertain, kDone, kDone}, State::kUncertain, "", ""},
      // Somebody writes: what the others say is not the last word.
      {{kWriting, kDone, kDone}, State::kWriting, "", ""},
      {{kDone, kWriting, kDone}, State::kWriting, "", ""},
      {{kWriting, kFailed, kDone}, State::kWriting, "", ""},
      {{kFailed, kWriting, kDone}, State::kWriting, "", ""},
      {{kDone, kFailed, kWriting}, State::kWriting, "", ""},
      // The first rank's cause is told.
      {{kFailed, kFailed, kDone}, State::kFailed, "rank 0", ""},
      {{kFailed, kDone, kDone}, State::kFailed, "rank 0", ""},
      // A commit cannot be undone by a rank that failed behind it.
      {{kDone, kFailed, kDone}, State::kUncertain, "", "rank 1"},
      {{kUncertain, kDone, kFailed}, State::kUncertain, "", "rank 2"},
      // A rank that hangs is in the way, whatever the others have.
      {{kDone, kHanging, kDone}, State::kHanging, "rank 1", ""},
      {{kHanging, kWriting, kDone}, State::kHanging, "rank 0", ""},
      {{kDone, kFailed, kHanging}, State::kHanging, "rank 1", ""},
      // A rank could not even make its report.
      {{kNone, kFailed, kNone}, State::kFailed, "rank 1", ""},
  };
  for (const auto& row : table) {
    const SaveOutcome outcome = of(row.ranks[0], row.ranks[1], row.ranks[2]);
    const std::string which = "row " + std::to_string(&row - table);
    EXPECT_EQ(outcome.state, row.state) << which;
    EXPECT_EQ(outcome.error, row.error) << which;
    EXPECT_EQ(outcome.doubt, row.doubt) << which;
  }
}

TEST(SaveOutcome, HasTheIdThatRankZeroProposes) {
  EXPECT_EQ(outcome_of({{.state = Report::kDone, .next_id = "a"}, {.state = Report::kDone}}).next_id, "a");
  EXPECT_EQ(outcome_of({{.state = Report::kFailed, .next_id = "b"}, {.state = Report::kDone}}).next_id, "b");
}

TEST(NextAction, FollowsFromTheOutcomeAndTheRequest) {
  const struct {
    State last;
    SaveRequest request;
    Kind kind;
    bool report_failure;
    std::int64_t failures;
  } table[] = {
      // A save begins, with two failures behind it of three that are allowed.
      {State::kNone, {true, false, 2, 3}, Kind::kStart, false, 2},
      {State::kCommitted, {true, false, 2, 3}, Kind::kStart, false, 0},
      {State::kUncertain, {true, false, 2, 3}, Kind::kStart, false, 0},
      {State::kWriting, {true, false, 2, 3}, Kind::kLeaveOut, false, 2},
      {State::kFailed, {true, false, 1, 3}, Kind::kStart, true, 2},
      {State::kFailed, {true, false, 2, 3}, Kind::kStopTooMany, false, 3},
      {State::kHanging, {true, false, 1, 3}, Kind::kLeaveOut, true, 2},
      {State::kHanging, {true, false, 2, 3}, Kind::kStopTooMany, false, 3},
      // The final one is tried whatever became of those before, unless one is in its way.
      {State::kNone, {true, true, 2, 3}, Kind::kStart, false, 2},
      {State::kCommitted, {true, true, 2, 3}, Kind::kStart, false, 0},
      {State::kFailed, {true, true, 2, 3}, Kind::kStart, false, 2},
      {State::kWriting, {true, true, 0, 3}, Kind::kStopLastInTheWay, false, 0},
      {State::kHanging, {true, true, 0, 3}, Kind::kStopLastInTheWay, false, 0},
      // It has ended while training waited.
      {State::kCommitted, {false, false, 2, 3}, Kind::kGoOn, false, 0},
      {State::kUncertain, {false, true, 2, 3}, Kind::kGoOn, false, 0},
      {State::kFailed, {false, false, 1, 3}, Kind::kGoOn, true, 2},
      {State::kFailed, {false, false, 2, 3}, Kind::kStopTooMany, false, 3},
      {State::kHanging, {false, false, 1, 3}, Kind::kGoOn, true, 2},
      {State::kWriting, {false, false, 1, 3}, Kind::kGoOn, true, 2},
      {State::kFailed, {false, true, 0, 3}, Kind::kStopFinalFailed, false, 1},
      {State::kHanging, {false, true, 0, 3}, Kind::kStopFinalFailed, false, 1},
  };
  for (const auto& row : table) {
    const NextAction next = next_action({.state = row.last}, row.request);
    const std::string which = "row " + std::to_string(&row - table);
    EXPECT_EQ(next.kind, row.kind) << which;
    EXPECT_EQ(next.report_failure, row.report_failure) << which;
    EXPECT_EQ(next.failures, row.failures) << which;
  }
}

}  // namespace
}  // namespace echelon
