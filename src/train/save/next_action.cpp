#include "train/save/next_action.h"

#include <algorithm>

namespace echelon {
namespace {

using Report = SaveReport::State;
using State = SaveOutcome::State;
using Kind = NextAction::Kind;

}  // namespace

SaveOutcome outcome_of(const std::vector<SaveReport>& reports) {
  const auto any = [&](Report state) {
    return std::any_of(reports.begin(), reports.end(), [=](const auto& r) { return r.state == state; });
  };
  const SaveReport& lead = reports.front();
  const auto trouble = std::find_if(reports.begin(), reports.end(), [](const SaveReport& report) {
    return report.state == Report::kFailed || report.state == Report::kHanging;
  });
  SaveOutcome outcome{.next_id = lead.next_id};
  if (any(Report::kHanging)) {
    outcome.state = State::kHanging;
    outcome.error = trouble->error;
  } else if (any(Report::kWriting)) {
    // A failure on another rank does not end the save yet: it has ended only when no rank is writing any
    // more.
    outcome.state = State::kWriting;
  } else if (trouble == reports.end()) {
    outcome.state = State::kCommitted;
    if (lead.state == Report::kNone) outcome.state = State::kNone;
    if (lead.state == Report::kUncertain) outcome.state = State::kUncertain;
  } else if (lead.state == Report::kDone || lead.state == Report::kUncertain) {
    // A rank can fail after its shard has its final name. Rank 0 may have committed on the strength of that
    // name, and a commit cannot be undone.
    outcome.state = State::kUncertain;
    outcome.doubt = trouble->error;
  } else {
    outcome.state = State::kFailed;
    outcome.error = trouble->error;
  }
  return outcome;
}

NextAction next_action(const SaveOutcome& outcome, const SaveRequest& request) {
  NextAction next{.failures = outcome.committed() ? 0 : request.failures};
  const bool failed = outcome.state == State::kFailed || outcome.state == State::kHanging ||
                      (outcome.in_flight() && !request.begins);
  // The final save is attempted whatever the outcome of earlier ones.
  if (failed && !(request.begins && request.final)) {
    ++next.failures;
    if (request.final) return {.kind = Kind::kStopFinalFailed, .failures = next.failures};
    if (next.failures >= request.max_failures) return {.kind = Kind::kStopTooMany, .failures = next.failures};
    next.report_failure = true;
  }
  if (!request.begins) {
    next.kind = Kind::kGoOn;
  } else if (outcome.in_flight()) {
    next.kind = request.final ? Kind::kStopLastInTheWay : Kind::kLeaveOut;
  }
  return next;
}

}  // namespace echelon
