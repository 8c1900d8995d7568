#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/files/fs.h"
#include "base/net/guarded_listener.h"
#include "base/not_copied.h"
#include "liveness/judge.h"
#include "liveness/wire.h"

namespace echelon {

/// Receives the heartbeats of all ranks, on a thread of rank 0. Acknowledges them, asks the Judge for a
/// verdict, has a suspect examined, and reports the verdict to `on_verdict` (on its thread) and then to every
/// rank.
class Hub : NotCopied {
 public:
  struct Options {
    JudgeOptions judge;
    std::vector<std::string> hosts;  ///< of every rank, by rank
    Secret secret{};                 ///< who does not know it is not listened to
    std::function<void(const Finding&)> on_verdict;
    std::function<void(const Finding&)> on_warning;
    /// Called every two seconds from the first step on; must not wait for anything. May be empty.
    std::function<void(const std::vector<NodeState>&)> on_nodes;
  };
  /// Opens the listening socket and starts the thread. Throws Error(kEnvironment) if it cannot listen.
  explicit Hub(Options options);
  /// Stops the thread. Tells the ranks that the hub ends normally, unless there was a verdict.
  ~Hub();

  [[nodiscard]] int port() const { return listener_.port(); }
  /// Tells the addresses of all ranks, when they are known.
  void expect(const std::vector<ServiceCard>& cards) { listener_.expect(cards); }
  /// Call it after a verdict. Waits at most `at_most_s` until every other rank has disconnected; ranks that
  /// the verdict calls silent do not count, because they cannot. Returns whether no other rank is connected
  /// any more.
  [[nodiscard]] bool wait_for_leaving(double at_most_s) const;

 private:
  struct Peer {
    explicit Peer(fs::Fd socket) : wire(std::move(socket)) {}
    Wire wire;
    int rank = -1;  ///< -1: no hello yet
  };
  void loop();
  void serve(Peer& peer, double now_s);
  void on_frame(Peer& peer, const Frame& frame, double now_s);
  void drop_closed(double now_s);
  void decide(double now_s);
  void tell_nodes(double now_s);
  [[nodiscard]] bool examine(const Finding& finding, double now_s);
  void announce(const Finding& finding);
  [[nodiscard]] Peer* find(int rank);

  Options options_;
  GuardedListener listener_;
  Judge judge_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::map<int, std::int64_t> processes_;  ///< process numbers by rank; kept after a connection closes
  struct Examination {
    int rank = 0;  ///< the suspect
    double began_s = 0;
    std::string answer;
  };
  std::optional<Examination> examination_;
  double reported_nodes_s_ = 0;  ///< when on_nodes was called last
  bool announced_ = false;
  int silent_node_ = -1;     ///< Judge::silent_node()
  std::vector<int> silent_;  ///< ranks that the verdict calls so
  std::atomic<int> others_connected_{0};
  std::atomic<int> silent_connected_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace echelon
