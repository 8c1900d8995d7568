#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/net/node_layout.h"
#include "base/options/choice.h"
#include "liveness/frame.h"

namespace echelon {

/// Limits in seconds; see ClusterOptions.
struct JudgeOptions {
  double interval_s = 1;        ///< between two beats
  double silence_s = 30;        ///< longest time without a beat
  double stall_s = 300;         ///< longest wait for a rank that has not issued a collective
  double straggler_factor = 2;  ///< work per step relative to the median; 0: no straggler warnings
};

/// The heartbeats of a node's ranks.
enum class NodeLife : std::uint8_t { kAlive, kSilent, kEnded, kLeft };
template <>
inline constexpr std::array<std::string_view, 4> kWords<NodeLife>{"alive", "silent", "ended", "left"};

/// The known state of a node.
struct NodeState {
  std::string host;
  int ranks = 0;
  double silent_s = 0;    ///< since the last heartbeat of the rank that is silent longest
  std::int64_t step = 0;  ///< of the rank that is furthest behind
  NodeLife life = NodeLife::kAlive;
};

/// A conclusion about a rank or node.
struct Finding {
  enum class Kind : std::uint8_t {
    kEnded,      ///< a process has ended
    kSilent,     ///< one process sends no beats, others of its node do
    kNode,       ///< no process of a node sends beats, or all ended together
    kStalled,    ///< alive, but others wait for it
    kStraggler,  ///< slower than the others; a warning only
  };
  Kind kind = Kind::kEnded;
  int rank = 0;               ///< the rank at fault, or one of the node at fault
  std::string text;           ///< one sentence
  double since_s = 0;         ///< seconds since it began
  bool node_suspect = false;  ///< the next start should exclude the node
};

/// Decides from heartbeats which rank or node is the cause of a failure. Reads no clock: the caller passes
/// the time (seconds of any steady clock), so tests need not wait. Not thread-safe.
class Judge {
 public:
  /// `hosts`: the host of every rank, by rank.
  Judge(const JudgeOptions& options, std::vector<std::string> hosts);

  /// Records a heartbeat.
  void received(int rank, const Sign& sign, double time_s);
  /// The connection closed without a leave message.
  void ended(int rank, double time_s);
  /// The rank announced its end; it is no longer judged.
  void left(int rank);

  /// Records that this process itself did not run for `seconds` (suspended job, migrated virtual machine).
  /// That time does not count as silence of others.
  void stood_still(double seconds);

  /// The cause of a failure, if there is one at `time_s`.
  [[nodiscard]] std::optional<Finding> look(double time_s);
  /// A rank of a node all of whose ranks have missed several beats, so that it may be lost; -1: none.
  [[nodiscard]] int silent_node(double time_s) const;
  /// A straggler warning, if one is due; at most one per host in ten minutes.
  [[nodiscard]] std::optional<Finding> straggler(double time_s);

  /// Returns the nodes in the order of their first ranks. For people: nothing is decided from it.
  [[nodiscard]] std::vector<NodeState> nodes(double time_s) const;
  /// "rank 3 (n1)".
  [[nodiscard]] std::string name_of(int rank) const;
  /// Another live rank on the same node, from which a heartbeat arrived within the last `within_s`; -1: none.
  [[nodiscard]] int neighbor_of(int rank, double time_s, double within_s) const;

 private:
  /// With its last heartbeat.
  struct Peer : Sign {
    bool known = false;
    bool left = false;
    bool ended = false;
    double received_s = 0;
    double ended_s = 0;
    double work_s = 0;            ///< per step, between the last two beats with a completed step between them
    std::int64_t new_steps = 0;   ///< not yet examined by slow_work()
    std::int64_t slow_steps = 0;  ///< in a row
    double slow_since_s = 0;
    std::int64_t slow_round_trips = 0;  ///< beats in a row
    bool new_round_trip = false;
    double awaited_by = 0;  ///< smoothed fraction of time that the others wait for its node
  };
  [[nodiscard]] const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
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
  NodeLayout layout_;
  std::vector<Peer> peers_;
  double stalled_since_s_ = -1;           ///< since when a rank has waited too long; negative: none does
  bool new_votes_ = false;                ///< rank 0 has sent a beat since the last vote
  std::map<std::string, double> warned_;  ///< time of the last warning by host
};

}  // namespace echelon
