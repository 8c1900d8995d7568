#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/activity.h"

namespace echelon {

/// After how long what counts as lost. Seconds; see ClusterOptions.
struct JudgeOptions {
  double silence_s = 30;        ///< without a beat: process stopped, node gone or cut off
  double stall_s = 300;         ///< a collective under way that a rank has not come to
  double straggler_factor = 2;  ///< work a step over the median, or round trips ten times as much; 0: never
};

/// What a heartbeat tells the judge.
struct Sign {
  Activity::Now now;
  double round_trip_s = 0;   ///< 0: unknown
  int awaited = -1;          ///< the rank that this one waits for most; -1: unknown
  double awaited_share = 0;  ///< of its time, for that rank and the others of its node
};

/// What the judge concludes of the ranks: one sentence.
struct Finding {
  enum class Kind : std::uint8_t {
    kEnded,      ///< a process has ended
    kSilent,     ///< one process gives no sign, others of its node do
    kNode,       ///< no process of a node gives a sign, or all ended together
    kStalled,    ///< alive, and others wait for it
    kStraggler,  ///< slower than the others: a warning, the run goes on
  };
  Kind kind = Kind::kEnded;
  int rank = 0;               ///< the culprit, or the first of its node
  std::string text;           ///< the sentence
  double since_s = 0;         ///< how long ago it began
  bool node_suspect = false;  ///< the next start is better off without the node
};

/// Decides from heartbeats which rank or node is the cause when something is wrong. Pure: the caller gives
/// the time (seconds of any steady clock), so that tests need not wait. One thread.
class Judge {
 public:
  /// `hosts`: of every rank.
  Judge(const JudgeOptions& options, std::vector<std::string> hosts);

  void heard(int rank, const Sign& sign, double time_s);
  /// The connection broke without a word.
  void ended(int rank, double time_s);
  /// The rank said that it ends: whatever follows is no surprise.
  void left(int rank);

  /// This process itself has just stood still for so long (Slurm suspended the job, a virtual machine moved):
  /// the others' silence says nothing about them.
  void stood_still(double seconds);

  /// The cause, if there is one by now.
  [[nodiscard]] std::optional<Finding> look(double time_s);
  /// A warning that is due; each rank or node is named once in a while.
  [[nodiscard]] std::optional<Finding> straggler(double time_s);

  /// "rank 3 (n1)".
  [[nodiscard]] std::string name_of(int rank) const;
  /// A living neighbour on the same node, heard within the last `within_s`; -1: none.
  [[nodiscard]] int neighbour_of(int rank, double time_s, double within_s) const;

 private:
  struct Peer {
    bool known = false;
    bool left = false;
    bool ended = false;
    double heard_s = 0;
    double ended_s = 0;
    Activity::Now now;
    double round_trip_s = 0;
    double work_s = 0;            ///< a step, between the last two beats that saw one end
    std::int64_t new_steps = 0;   ///< not looked at yet
    std::int64_t slow_steps = 0;  ///< in a row
    double slow_since_s = 0;
    std::int64_t slow_round_trips = 0;  ///< beats in a row
    bool new_round_trip = false;
    int awaited = -1;
    double awaited_share = 0;
    double awaited_by = 0;  ///< average share of time that the others wait for its node
  };
  [[nodiscard]] const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::vector<int> ranks_of_host(const std::string& host) const;
  [[nodiscard]] bool whole_node_gone(int rank, double time_s) const;
  [[nodiscard]] std::optional<Finding> look_for_ended(double time_s) const;
  [[nodiscard]] std::optional<Finding> look_for_silent(double time_s) const;
  [[nodiscard]] std::optional<Finding> look_for_stalled(double time_s);
  [[nodiscard]] std::optional<Finding> slow_work(double time_s);
  [[nodiscard]] std::optional<Finding> slow_network();
  [[nodiscard]] std::optional<Finding> awaited_by_most();
  [[nodiscard]] bool may_warn(const std::string& host, double time_s);

  JudgeOptions options_;
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;
  double stalled_since_s_ = -1;                         ///< somebody waits too long; negative: nobody
  bool new_votes_ = false;                              ///< rank 0 has sent a beat since
  std::vector<std::pair<std::string, double>> warned_;  ///< host and when
};

}  // namespace echelon
