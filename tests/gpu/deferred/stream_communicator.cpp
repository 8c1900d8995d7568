#include "gpu/deferred/stream_communicator.h"

#include "comm/local_communicator.h"
#include "gpu/deferred/streams.h"

namespace echelon::test::deferred {
namespace {

std::size_t number_of(c10::Stream stream) {
  return static_cast<std::size_t>(stream.id());
}

class Operation final : public Pending::State {
 public:
  explicit Operation(Streams::Event end) : end_(end) {}
  void wait() override {
    const std::lock_guard lock(Streams::instance().mutex);
    Streams::instance().block(number_of(current_stream()), end_);
  }

 private:
  Streams::Event end_;
};

class StreamCommunicator final : public Communicator {
 public:
  StreamCommunicator() : Communicator(0, 1), stream_(new_stream()) {}

  Pending all_gather(void* buffer, std::size_t count, DType type, std::string_view label) override {
    return operate("all-gather", {{buffer, count * size_of(type), true}},
                   [=, this] { alone_.all_gather(buffer, count, type, label).wait(); });
  }
  Pending reduce_scatter(void* input, DType type, float* output, std::size_t count, float scale,
                         bool accumulate, std::string_view label) override {
    return operate(
        "reduce-scatter", {{input, count * size_of(type), true}, {output, count * sizeof(float), true}},
        [=, this] { alone_.reduce_scatter(input, type, output, count, scale, accumulate, label).wait(); });
  }
  Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                     std::string_view label) override {
    return operate("all-reduce", {{data, count * size_of(type), true}},
                   [=, this] { alone_.all_reduce(data, count, type, op, label).wait(); });
  }
  std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override {
    return alone_.gather_blobs(mine, label);
  }
  void barrier(std::string_view label) override { alone_.barrier(label); }
  std::unique_ptr<Communicator> split(const ColorOf&) override { return make_stream_communicator(); }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return 0; }
  [[nodiscard]] std::vector<std::string> recent() const override { return alone_.recent(); }

 private:
  Pending operate(const char* what, const std::vector<Access>& accesses, const std::function<void()>& body) {
    Streams& streams = Streams::instance();
    const std::lock_guard lock(streams.mutex);
    streams.block(number_of(stream_), streams.record(number_of(current_stream())));
    compute(stream_, what, accesses, body);
    return Pending(std::make_shared<Operation>(streams.record(number_of(stream_))));
  }

  LocalCommunicator alone_;
  c10::Stream stream_;
};

}  // namespace

std::unique_ptr<Communicator> make_stream_communicator() {
  return std::make_unique<StreamCommunicator>();
}

}  // namespace echelon::test::deferred
