#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/not_copied.h"
#include "bootstrap/job.h"
#include "bootstrap/options.h"
#include "comm/process_watch.h"
#include "liveness/hub.h"
#include "liveness/nodes_file.h"
#include "liveness/stacks.h"

namespace echelon {

/// Failure detection of one rank, independent of collectives. Each rank sends a heartbeat every
/// cluster.heartbeat_interval_s over a separate TCP connection to rank 0's Hub, which acknowledges it. If a
/// rank dies, is stopped or makes no progress, or its node is lost, the hub sends a verdict to all ranks. The
/// verdict fails their communicators, whose waits then throw Error(kPeer). A process that has not exited a
/// few seconds later is ended from here with exit code 7, wherever its training thread hangs. The loss of
/// rank 0 is detected by each rank itself.
///
/// Rank 0 reports a verdict: one line on standard error, `logs`/peer-failure.txt (time, job, sentence), which
/// tells the batch script that it may retry the failed job step, and a line in `logs`/suspects.txt if the
/// node is suspect. From show_nodes() on, `logs`/nodes.json shows people the state of every node. The hub
/// listens on a port chosen by the system. A rank that cannot reach it logs a warning and continues without
/// failure detection.
class LifeWatch : NotCopied {
 public:
  struct Options {
    ClusterOptions cluster;
    std::filesystem::path logs;
    /// Called on rank 0 at a verdict, on another thread. `since_s`: seconds since the run stopped making
    /// progress.
    std::function<void(double since_s)> on_verdict;
  };
  /// Collective over `job`; needs no communicator, so it can watch the ranks connect. Must be constructed on
  /// the training thread. Copies `watch` and the facts of the job.
  LifeWatch(Options options, Job& job, const ProcessWatch& watch);
  /// Tells the hub that this rank ends normally. After a verdict, the caller must end the process.
  ~LifeWatch();

  /// Starts to write `logs`/nodes.json.
  void show_nodes() { shows_nodes_ = true; }

  /// The report of an error that ends this rank.
  struct Conclusion {
    Error error;         ///< if is_reported(), it must not be printed again
    bool abort = false;  ///< end the job's other ranks, which may not know of the error
  };
  /// A communication error is often the consequence of a failure that the hub is about to detect, so this
  /// waits for its verdict: briefly, and for cluster.heartbeat_timeout_s while a node is silent. For other
  /// errors, tells the hub that this rank leaves.
  [[nodiscard]] Conclusion conclude(const Error& error);

 private:
  void connect(Job& job);
  void loop();
  void beat(double now_s);
  void on_frame(const Frame& frame, double now_s);
  void judge_hub(double now_s);
  void end_by(const std::string& verdict, bool mine);
  void on_verdict(const Finding& finding);
  void leave();
  void show_stack(Frame answer);
  [[nodiscard]] const std::string& host_of(int rank) const {
    return job_.hosts[static_cast<std::size_t>(rank)];
  }

  Options options_;
  JobInfo job_;
  ProcessWatch watch_;
  StackProbe probe_;
  std::unique_ptr<NodesFile> nodes_;  ///< on rank 0 only; the hub uses it
  std::unique_ptr<Hub> hub_;          ///< on rank 0 only
  std::unique_ptr<Wire> wire_;        ///< null: no failure detection
  std::uint64_t beats_ = 0;
  double last_beat_s_ = 0;
  double last_ack_s_ = 0;
  std::vector<double> round_trips_;  ///< of recent beats, newest first
  bool hub_closed_ = false;
  std::atomic<bool> node_is_silent_{false};  ///< the hub waits for a node's heartbeats
  std::atomic<bool> shows_nodes_{false};
  std::atomic<bool> ended_{false};      ///< there was a verdict
  std::atomic<bool> unwatched_{false};  ///< no connection to the hub
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace echelon
