#include "gpu/runtime/ranks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/str.h"
#include "bootstrap/job.h"

namespace echelon::test {
namespace {

using Seconds = std::chrono::duration<double>;
using Steady = std::chrono::steady_clock;

/// The key-value exchange of ranks that are threads.
class Board {
 public:
  explicit Board(int size) : size_(static_cast<std::size_t>(size)) {}

  std::vector<Blob> exchange(int rank, std::size_t number, const Blob& mine, double timeout_s) {
    std::unique_lock lock(mutex_);
    if (rounds_.size() <= number) rounds_.resize(number + 1);
    Round& round = rounds_[number];
    round.blobs.resize(size_);
    round.blobs[static_cast<std::size_t>(rank)] = mine;
    ++round.there;
    changed_.notify_all();
    if (!changed_.wait_for(lock, Seconds(timeout_s), [&] { return rounds_[number].there == size_; }))
      throw Error(Code::kPeer, "a rank did not come to the exchange");
    return rounds_[number].blobs;
  }

 private:
  struct Round {
    std::vector<Blob> blobs;
    std::size_t there = 0;
  };
  const std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Round> rounds_;
};

class ThreadJob final : public Job {
 public:
  ThreadJob(Board& board, int rank, const stand_in::MachineOptions& options, double timeout_s)
      : board_(board), timeout_s_(timeout_s) {
    const int per_node = options.ranks_per_node == 0 ? options.ranks : options.ranks_per_node;
    std::vector<std::string> hosts;
    for (int other = 0; other < options.ranks; ++other) hosts.push_back(str("n", other / per_node));
    info_ = place_rank(rank, hosts);
  }
  std::vector<Blob> exchange(std::string_view, const Blob& mine) override {
    return board_.exchange(info_.rank, rounds_++, mine, timeout_s_);
  }
  void fence(std::string_view name) override { (void)exchange(name, {}); }
  void abort(int, const std::string&) override {}
  void finish() override {}

 private:
  Board& board_;
  const double timeout_s_;
  std::size_t rounds_ = 0;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::shared_ptr<Communicator> Rank::communicator(CudaMemory memory) {
  return world = make_nccl_communicator(
             job, {.device = job.info().rank,
                   .timeout_s = timeout_s,
                   .current_stream = [stream = compute] { return static_cast<void*>(stream); },
                   .watch = watch,
                   .memory = std::move(memory)});
}

void Rank::copy_out(void* to, const void* from, std::size_t bytes) const {
  if (cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute) != cudaSuccess)
    throw Error(Code::kPeer, "the copy failed");
  watch.failure->check();  // an abort lets the stream pass
}

bool Outcome::clean() const {
  if (!faults.empty() || !standstill.empty()) return false;
  for (const std::string& error : errors)
    if (!error.empty()) return false;
  return true;
}

bool Outcome::others_back(int than) const {
  for (std::size_t rank = 0; rank < back.size(); ++rank)
    if (!back[rank] && static_cast<int>(rank) != than) return false;
  return true;
}

std::string Outcome::text() const {
  std::string text;
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    if (!errors[rank].empty()) text += str("rank ", rank, " ended: ", errors[rank], "\n");
  for (const std::string& fault : faults) text += str("fault: ", fault, "\n");
  if (!standstill.empty()) text += str("standstill: ", standstill, "\n");
  return text;
}

Outcome run_ranks(const stand_in::MachineOptions& options, double timeout_s, double patience_s,
                  const std::function<void(Rank&)>& body) {
  stand_in::Machine machine(options);
  Board board(options.ranks);
  Outcome outcome;
  outcome.errors.resize(static_cast<std::size_t>(options.ranks));
  outcome.seconds_of.resize(static_cast<std::size_t>(options.ranks));
  std::vector<bool> back(static_cast<std::size_t>(options.ranks), false);
  int working = options.ranks;
  bool released = false;
  std::mutex mutex;
  std::condition_variable changed;
  const bool hangs = options.fate == stand_in::Fate::kHangs || options.fate == stand_in::Fate::kBreaks;
  const auto all_back = [&] {
    for (int rank = 0; rank < options.ranks; ++rank)
      if (!back[static_cast<std::size_t>(rank)] && !(hangs && rank == options.fated_rank)) return false;
    return true;
  };
  const auto began = Steady::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      machine.enter(rank);
      const auto own = static_cast<std::size_t>(rank);
      ThreadJob job(board, rank, options, timeout_s);
      Rank self{.machine = machine, .job = job, .watch = {}, .compute = nullptr, .timeout_s = timeout_s};
      const std::string error = error_of([&] { body(self); });
      {
        std::unique_lock lock(mutex);
        outcome.errors[own] = error;
        outcome.seconds_of[own] = Seconds(Steady::now() - began).count();
        const bool failed = !error.empty();
        back[own] = failed || hangs;  // NCCL's end may wait for the one that hangs
        --working;
        changed.notify_all();
        if (failed) changed.wait(lock, [&] { return working == 0 || released; });
      }
      self.world.reset();
      stand_in::Machine::leave();
      const std::lock_guard lock(mutex);
      back[own] = true;
      changed.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    const bool all = changed.wait_for(lock, Seconds(patience_s), all_back);
    outcome.back = back;
    if (!all) outcome.standstill = str("not all ranks are back: ", machine.standstill());
    if (!all || hangs) {
      machine.release();
      released = true;
      changed.notify_all();
    }
  }
  for (std::thread& thread : threads) thread.join();
  static_cast<stand_in::Report&>(outcome) = machine.report();
  return outcome;
}

}  // namespace echelon::test
