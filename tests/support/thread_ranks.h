#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace echelon::test {

/// Ranks that are threads of this process, with the collectives that agreements and saves are made of. A rank
/// that leaves while others wait for it makes their calls throw Error(kPeer), as a lost peer does, and so
/// does one that does not come within `deadline_s`.
class ThreadRanks {
 public:
  /// Runs `body` as each of `size` ranks; returns what each of them threw, null for nothing.
  static std::vector<std::exception_ptr> run(int size, const std::function<void(Communicator&)>& body,
                                             double deadline_s = 600) {
    ThreadRanks ranks(size, deadline_s);
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Rank comm(ranks, rank);
        try {
          body(comm);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
        ranks.leave();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return thrown;
  }

 private:
  ThreadRanks(int size, double deadline_s)
      : size_(size), deadline_s_(deadline_s), blobs_(static_cast<std::size_t>(size)) {}

  class Rank final : public Communicator {
   public:
    Rank(ThreadRanks& ranks, int rank) : Communicator(rank, ranks.size_), ranks_(ranks) {}
    std::vector<Blob> gather_blobs(const Blob& mine, std::string_view) override {
      return ranks_.gather(rank(), mine);
    }
    void barrier(std::string_view) override { (void)ranks_.gather(rank(), {}); }
    Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op, std::string_view) override {
      if (type != DType::kF64 || op != ReduceOp::kSum) throw std::logic_error("only sums of doubles");
      auto* values = static_cast<double*>(data);
      const auto* bytes = static_cast<const std::byte*>(data);
      const std::vector<Blob> all = ranks_.gather(rank(), {bytes, bytes + count * sizeof(double)});
      std::fill_n(values, count, 0.0);
      for (const Blob& blob : all) {
        for (std::size_t i = 0; i < count; ++i) {
          double theirs = 0;
          std::memcpy(&theirs, blob.data() + i * sizeof(double), sizeof(double));
          values[i] += theirs;
        }
      }
      return {};
    }
    Pending all_gather(void*, std::size_t, DType, std::string_view) override { return unexpected(); }
    Pending reduce_scatter(void*, DType, float*, std::size_t, float, bool, std::string_view) override {
      return unexpected();
    }
    std::unique_ptr<Communicator> split(const ColorOf&) override { throw std::logic_error("not here"); }
    std::uint64_t sent_bytes() const override { return 0; }
    std::vector<std::string> recent() const override { return {}; }

   private:
    static Pending unexpected() { throw std::logic_error("not here"); }
    ThreadRanks& ranks_;
  };

  std::vector<Blob> gather(int rank, const Blob& mine) {
    std::unique_lock lock(mutex_);
    blobs_[static_cast<std::size_t>(rank)] = mine;
    const std::uint64_t round = round_;
    if (++arrived_ == size_) {
      result_ = blobs_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return result_;
    }
    changed_.wait_for(lock, std::chrono::duration<double>(deadline_s_),
                      [&] { return round_ != round || left_ > 0; });
    if (round_ == round) throw Error(Code::kPeer, "a rank has left, or is late");
    return result_;  // the next round cannot end before this rank comes to it
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    ++left_;
    changed_.notify_all();
  }

  int size_;
  double deadline_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Blob> blobs_;
  std::vector<Blob> result_;
  int arrived_ = 0;
  int left_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace echelon::test
