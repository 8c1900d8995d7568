#include "app/supervise/clear_nodes.h"

#include <algorithm>
#include <future>
#include <stop_token>
#include <vector>

#include "base/mutex.h"
#include "base/process/program.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon::supervise {
namespace {

constexpr double kPatienceWithNode_s = 8;
constexpr double kPatienceWithoutAnswer_s = 60;
constexpr double kPatienceForOthers_s = 4;

/// Runs on a node, with the start as $1. Waits until its ranks are gone; those that stay are killed. Then
/// names the node. Ranks are found by their environment, also those that a signal has stopped and those in a
/// container.
constexpr const char* kClearAway = R"(
left() {
  grep -lszx "ECHELON_STARTED_AT=$1" /proc/[0-9]*/environ | xargs -r grep -lszx "SLURMD_NODENAME=$SLURMD_NODENAME" |
    xargs -r grep -lsz "^PMIX_RANK=" | grep -o "[0-9]*"
}
while ((SECONDS < 8)); do
  if ! ranks=$(left "$1"); then exec echo "$SLURMD_NODENAME"; fi
  if ((SECONDS >= 2)); then kill -KILL $ranks; fi
  sleep 0.1
done)";

std::vector<std::string> command_for(const ClearRequest& request) {
  const std::size_t nodes = request.asked.size();
  return {"srun",
          "--quiet",
          "--overlap",
          "--no-kill",
          "--mpi=none",
          "--export=ALL",
          "--cpu-bind=none",
          str("--nodes=", nodes),
          str("--ntasks=", nodes),
          "--ntasks-per-node=1",
          "--nodelist=" + join(request.asked, ","),
          "bash",
          "-c",
          kClearAway,
          "clear_away",
          request.started_at};
}

/// Names that nodes print, as they come. Thread-safe.
class Answers {
 public:
  explicit Answers(const Nodes& asked) : asked_(asked) {}

  void add(std::string_view output) {
    const Lock lock(mutex_);
    for (const char c : output) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      if (contains(asked_, line_)) names_.insert(line_);
      line_.clear();
    }
  }
  [[nodiscard]] std::set<std::string> names() const {
    const Lock lock(mutex_);
    return names_;
  }

 private:
  const Nodes& asked_;
  mutable Mutex mutex_;
  std::string line_ ECHELON_GUARDED_BY(mutex_);
  std::set<std::string> names_ ECHELON_GUARDED_BY(mutex_);
};

/// Are as many nodes clear as the next start needs, and all of those that the lost one ran on?
bool is_enough(const ClearRequest& request, const std::set<std::string>& clear) {
  const auto is_missing = [&](const std::string& name) {
    return contains(request.asked, name) && !clear.contains(name);
  };
  return static_cast<std::int64_t>(clear.size()) >= request.wanted &&
         std::ranges::none_of(request.before, is_missing);
}

}  // namespace

ClearNodes clear_nodes(const ClearRequest& request) {
  if (request.asked.empty()) return {};
  Answers answers(request.asked);
  std::stop_source stop;
  const auto asking = std::async(std::launch::async, [&] {
    return run_program(command_for(request),
                       {.stop = stop.get_token(),
                        .own_group = false,
                        .on_output = [&](std::string_view text) { answers.add(text); }});
  });
  const auto begin = std::chrono::steady_clock::now();
  double deadline_s = kPatienceWithNode_s;
  std::size_t known = 0;
  ClearNodes found;
  for (bool ended = false; !ended && found.clear.size() < request.asked.size();) {
    ended = asking.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
    found.clear = answers.names();
    const double now_s = seconds_since(begin);
    if (known == 0 && !found.clear.empty()) deadline_s = std::max(deadline_s, now_s + kPatienceWithNode_s);
    known = found.clear.size();
    if (!request.all && is_enough(request, found.clear)) {
      found.unsure = request.asked;
      break;
    }
    if (static_cast<std::int64_t>(known) >= request.wanted)
      deadline_s = std::min(deadline_s, now_s + kPatienceForOthers_s);
    if (now_s >= deadline_s && (known > 0 || now_s >= kPatienceWithoutAnswer_s)) break;
  }
  stop.request_stop();
  return found;
}

}  // namespace echelon::supervise
