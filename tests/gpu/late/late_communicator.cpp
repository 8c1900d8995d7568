#include "gpu/late/late_communicator.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/str.h"

namespace echelon::test {
namespace {

/// Bytes of the caller's, and what they held when the operation was issued.
class Buffer {
 public:
  Buffer(void* place, std::size_t bytes)
      : place_(static_cast<std::byte*>(place)), held_(place_, place_ + bytes) {}

  /// For the operation itself to work on.
  [[nodiscard]] std::byte* copy() { return held_.data(); }
  void poison(std::size_t from, std::size_t to) { std::fill(place_ + from, place_ + to, std::byte{0xFF}); }
  void remember() { expected_.assign(place_, place_ + held_.size()); }
  [[nodiscard]] bool overlaps(const Buffer& other) const {
    return place_ < other.place_ + other.held_.size() && other.place_ < place_ + held_.size();
  }
  /// What an unfinished operation will leave in these bytes.
  void take_over(const Buffer& from) {
    if (from.place_ != place_ || from.held_.size() != held_.size())
      throw std::logic_error("parts of a buffer");
    held_ = from.held_;
  }
  [[nodiscard]] bool untouched() const { return std::equal(expected_.begin(), expected_.end(), place_); }
  void deliver() const { std::copy(held_.begin(), held_.end(), place_); }

 private:
  std::byte* place_;
  std::vector<std::byte> held_;
  std::vector<std::byte> expected_;
};

}  // namespace

/// One that was issued, and what becomes of its wait.
class LateOperation final : public Pending::State {
 public:
  using Buffers = std::vector<std::shared_ptr<Buffer>>;

  LateOperation(std::string name, Pending inner, Buffers buffers, std::shared_ptr<Buffer> result,
                Lateness& lateness)
      : name_(std::move(name)),
        inner_(std::move(inner)),
        buffers_(std::move(buffers)),
        result_(std::move(result)),
        lateness_(&lateness),
        is_left_out_(lateness.issued++ == lateness.left_out) {
    if (is_left_out_) lateness.left_out_as = name_;
    for (const auto& buffer : buffers_) buffer->remember();
  }
  /// The operation works on copies, which it must have left before they go.
  ~LateOperation() override {
    try {
      inner_.wait();
    } catch (const std::exception&) {  // told to who waited, or nobody did
      return;
    }
  }
  void wait() override {
    inner_.wait();
    ++lateness_->taken;
    done_ = true;
    if (is_left_out_ || is_continued_) return;
    for (const auto& buffer : buffers_) {
      if (!buffer->untouched())
        throw std::logic_error(str(name_, ": its buffer was written to before its wait"));
    }
    result_->deliver();
  }
  /// A later reduction begins with `buffer`: it goes on with this one's result, if it is that.
  void continue_in(Buffer& buffer) {
    if (done_ || is_continued_ || !result_->overlaps(buffer)) return;
    inner_.wait();
    buffer.take_over(*result_);
    is_continued_ = true;
    if (is_left_out_) lateness_->can_be_missed = false;
  }

 private:
  std::string name_;
  Pending inner_;
  Buffers buffers_;
  std::shared_ptr<Buffer> result_;
  Lateness* lateness_;
  bool is_left_out_;
  bool is_continued_ = false;
  bool done_ = false;
};

namespace {

enum class Lane { kGather, kReduce };

class Late final : public Communicator {
 public:
  Late(Communicator& inner, std::unique_ptr<Communicator> owned, Lateness& lateness)
      : Communicator(inner.rank(), inner.size()),
        inner_(&inner),
        owned_(std::move(owned)),
        lateness_(&lateness) {}

  Pending all_gather(void* buffer, std::size_t count, DType type, std::string_view label) override {
    const std::size_t part = count * size_of(type);
    const auto whole = std::make_shared<Buffer>(buffer, part * static_cast<std::size_t>(size()));
    Pending inner = inner_->all_gather(whole->copy(), count, type, label);
    const std::size_t own = part * static_cast<std::size_t>(rank());
    whole->poison(0, own);
    whole->poison(own + part, part * static_cast<std::size_t>(size()));
    return later(Lane::kGather, "all-gather", label, std::move(inner), {whole}, whole);
  }

  Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count, float scale,
                         bool accumulate, std::string_view label) override {
    const std::size_t bytes = count * sizeof(float);
    const auto given =
        std::make_shared<Buffer>(input, count * size_of(in_type) * static_cast<std::size_t>(size()));
    const auto result = std::make_shared<Buffer>(output, bytes);
    after_reductions(*result);
    Pending inner = inner_->reduce_scatter(given->copy(), in_type, reinterpret_cast<float*>(result->copy()),
                                           count, scale, accumulate, label);
    result->poison(0, bytes);
    return later(Lane::kReduce, "reduce-scatter", label, std::move(inner), {given, result}, result);
  }

  Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                     std::string_view label) override {
    const auto all = std::make_shared<Buffer>(data, count * size_of(type));
    after_reductions(*all);
    Pending inner = inner_->all_reduce(all->copy(), count, type, op, label);
    all->poison(0, count * size_of(type));
    return later(Lane::kReduce, "all-reduce", label, std::move(inner), {all}, all);
  }

  std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override {
    return inner_->gather_blobs(mine, label);
  }
  void barrier(std::string_view label) override { inner_->barrier(label); }
  std::unique_ptr<Communicator> split(const ColorOf& color_of) override {
    auto group = inner_->split(color_of);
    Communicator& inner = *group;
    return std::make_unique<Late>(inner, std::move(group), *lateness_);
  }
  std::uint64_t sent_bytes() const override { return inner_->sent_bytes(); }
  std::vector<std::string> recent() const override { return inner_->recent(); }

 private:
  Pending later(Lane lane, const char* kind, std::string_view label, Pending inner,
                LateOperation::Buffers buffers, std::shared_ptr<Buffer> result) {
    auto operation = std::make_shared<LateOperation>(str(kind, " ", label), std::move(inner),
                                                     std::move(buffers), std::move(result), *lateness_);
    if (lane == Lane::kReduce) lateness_->reductions.push_back(operation);
    return Pending(std::move(operation));
  }
  /// What earlier reductions leave there is what this one begins with.
  void after_reductions(Buffer& buffer) {
    for (const auto& earlier : lateness_->reductions) {
      if (const auto operation = earlier.lock()) operation->continue_in(buffer);
    }
  }

  Communicator* inner_;
  std::unique_ptr<Communicator> owned_;
  Lateness* lateness_;
};

}  // namespace

std::unique_ptr<Communicator> make_late(Communicator& inner, Lateness& lateness) {
  return std::make_unique<Late>(inner, nullptr, lateness);
}

}  // namespace echelon::test
