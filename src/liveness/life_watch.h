#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bootstrap/job.h"
#include "bootstrap/options.h"
#include "comm/process_watch.h"
#include "liveness/hub.h"
#include "liveness/stacks.h"

namespace echelon {

/// Failure detection of one rank, beside and independent of the collectives: each rank sends a beat every
/// cluster.heartbeat_interval_s over a TCP connection of its own to rank 0's Hub and gets an answer. When a
/// rank dies, stops, stands still or its node is lost, the hub's verdict reaches all ranks: it fails their
/// communicators, whose waits end with Error(kPeer), and a process that has not left some seconds later is
/// ended with exit code 7 from here, wherever its training thread hangs. When rank 0 is the lost one, each
/// rank finds out by itself.
///
/// Rank 0 reports a verdict: one line on standard error, `logs`/peer-failure.txt (time, job, sentence: the
/// batch script's sign that a failed step may be tried again) and, when the node is suspect, a line in
/// `logs`/suspects.txt. A port of the system's choice is used on rank 0's node; a rank that cannot reach it
/// warns and goes on unwatched.
class LifeWatch {
 public:
  struct Options {
    ClusterOptions cluster;
    std::filesystem::path logs;
    /// On rank 0 at a verdict, from another thread: how long ago the run came to a stand.
    std::function<void(double since_s)> on_verdict;
  };
  /// Collective over `comm`. Made on the thread that trains. `job` and `watch` are copied.
  LifeWatch(Options options, const JobInfo& job, Communicator& comm, const ProcessWatch& watch);
  LifeWatch(const LifeWatch&) = delete;
  LifeWatch& operator=(const LifeWatch&) = delete;
  /// Leaves in good order. After a verdict the caller ends the process.
  ~LifeWatch();

  /// What to do about an error that ends this rank.
  struct Conclusion {
    Error error;         ///< is_reported(): there is nothing to print
    bool abort = false;  ///< end the job's other ranks: they may not know
  };
  /// An error of communication is often the echo of something that the hub is about to know: waits for its
  /// verdict a moment. Other errors: tells the hub that this rank leaves.
  [[nodiscard]] Conclusion conclude(const Error& error);

 private:
  void connect(const JobInfo& job, Communicator& comm);
  void loop();
  void beat(double now_s);
  void on_frame(const Frame& frame, double now_s);
  void judge_hub(double now_s);
  void end_by(const std::string& verdict, bool mine);
  void on_verdict(const Finding& finding);
  void leave();
  [[nodiscard]] std::string my_stack() const;
  [[nodiscard]] const std::string& host_of(int rank) const {
    return job_.hosts[static_cast<std::size_t>(rank)];
  }

  Options options_;
  JobInfo job_;
  ProcessWatch watch_;
  StackProbe probe_;
  std::unique_ptr<Hub> hub_;    ///< rank 0's
  std::unique_ptr<Wire> wire_;  ///< null: unwatched
  std::uint64_t beats_ = 0;
  double last_beat_s_ = 0;
  double last_ack_s_ = 0;
  std::vector<double> round_trips_;  ///< of the last beats
  bool hub_closed_ = false;
  std::atomic<bool> ended_{false};      ///< there was a verdict
  std::atomic<bool> unwatched_{false};  ///< no connection to the hub
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace echelon
