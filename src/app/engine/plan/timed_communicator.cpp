#include "app/engine/plan/timed_communicator.h"

#include <algorithm>
#include <utility>

#include "base/not_copied.h"
#include "base/steady_time.h"
#include "book/stopwatch.h"
#include "comm/payload.h"

namespace echelon::app {
namespace {

/// Adds the time of its life to `seconds`.
class HeldUp : NotCopied {
 public:
  explicit HeldUp(double& seconds) : seconds_(seconds), began_s_(steady_now_s()) {}
  ~HeldUp() {
    const double held_s = steady_now_s() - began_s_;
    seconds_ += held_s;
    book::stopwatch::set_aside(held_s);
  }

 private:
  double& seconds_;
  double began_s_;
};

class TimedMessage final : public Pending::State {
 public:
  TimedMessage(std::string key, double bytes, MessageTimes& times)
      : key_(std::move(key)), bytes_(bytes), times_(times) {}
  template <class F>
  void issue(const F& issue) {
    const HeldUp held(seconds_);
    pending_ = issue();
  }
  void wait() override {
    {
      const HeldUp held(seconds_);
      pending_.wait();
    }
    times_.seconds += seconds_;
    times_.points[key_].push_back({0, bytes_, seconds_});
  }

 private:
  std::string key_;
  double bytes_;
  MessageTimes& times_;
  Pending pending_;
  double seconds_ = 0;
};

class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(Communicator& real, MessageTimes& times)
      : Communicator(real.rank(), real.size()), real_(real), times_(times) {}
  TimedCommunicator(std::unique_ptr<Communicator> own, MessageTimes& times) : TimedCommunicator(*own, times) {
    own_ = std::move(own);
  }

  Pending all_gather(void* buffer, std::size_t count, DType type, std::string_view label) override {
    return timed(OperationKind::kAllGather, count, type,
                 [&] { return real_.all_gather(buffer, count, type, label); });
  }
  Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count, float scale,
                         bool accumulate, std::string_view label) override {
    return timed(OperationKind::kReduceScatter, count, in_type, [&] {
      return real_.reduce_scatter(input, in_type, output, count, scale, accumulate, label);
    });
  }
  Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                     std::string_view label) override {
    return timed(OperationKind::kAllReduce, count, type,
                 [&] { return real_.all_reduce(data, count, type, op, label); });
  }
  std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override {
    return real_.gather_blobs(mine, label);
  }
  void barrier(std::string_view label) override { real_.barrier(label); }
  std::unique_ptr<Communicator> split(const ColorOf& color_of) override {
    return std::make_unique<TimedCommunicator>(real_.split(color_of), times_);
  }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return real_.sent_bytes(); }
  [[nodiscard]] std::vector<std::string> recent() const override { return real_.recent(); }

 private:
  template <class F>
  Pending timed(OperationKind kind, std::size_t count, DType type, const F& issue) {
    const bool alone = size() == 1;
    const auto bytes =
        static_cast<double>(alone ? count * size_of(type) : payload_bytes(kind, count, type, rank(), size()));
    const auto message =
        std::make_shared<TimedMessage>(forecast::key_of(kind, type, alone), std::max(1.0, bytes), times_);
    message->issue(issue);
    return Pending(message);
  }

  std::unique_ptr<Communicator> own_;
  Communicator& real_;
  MessageTimes& times_;
};

}  // namespace

std::unique_ptr<Communicator> make_timed_communicator(Communicator& real, MessageTimes& times) {
  return std::make_unique<TimedCommunicator>(real, times);
}

}  // namespace echelon::app
