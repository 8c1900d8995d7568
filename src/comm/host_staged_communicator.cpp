#include "comm/host_staged_communicator.h"

#include <algorithm>
#include <exception>
#include <map>

#include "base/error.h"
#include "base/not_copied.h"

namespace echelon {
namespace {

class StagedOperation;

/// Shared by a communicator and those split from it.
class Staging : NotCopied {
 public:
  explicit Staging(DeviceCopies copies) : copies_(std::move(copies)) {}
  ~Staging() {
    for (const auto& [bytes, memory] : free_) copies_.free_host(memory);
  }

  [[nodiscard]] const DeviceCopies& copies() const { return copies_; }
  /// Waits for every running operation that will write to any of these bytes. Results reach the device only
  /// in wait(), so an operation that reads them must not start before.
  void settle(const void* device, std::size_t bytes);
  void add(const std::shared_ptr<StagedOperation>& operation);

  /// Host memory, returned by give(). Blocks are reused, because page-locking memory is slow.
  [[nodiscard]] std::pair<std::size_t, std::byte*> take(std::size_t bytes) {
    const auto found = free_.lower_bound(bytes);
    if (found == free_.end()) return {bytes, copies_.allocate_host(std::max<std::size_t>(bytes, 1))};
    const std::pair<std::size_t, std::byte*> block = *found;
    free_.erase(found);
    return block;
  }
  void give(const std::pair<std::size_t, std::byte*>& block) { free_.insert(block); }

 private:
  DeviceCopies copies_;
  std::multimap<std::size_t, std::byte*> free_;  ///< by size
  std::vector<std::weak_ptr<StagedOperation>> under_way_;
};

/// An operation's host memory, and the destination of its result.
class StagedOperation final : public Pending::State, NotCopied {
 public:
  StagedOperation(std::shared_ptr<Staging> staging, std::size_t bytes)
      : staging_(std::move(staging)), block_(staging_->take(bytes)) {}
  /// The host's operation must not outlive its memory. A caller that dropped the Pending does not want its
  /// error.
  ~StagedOperation() override {
    try {
      inner_.wait();
    } catch (...) {
    }
    staging_->give(block_);
  }

  [[nodiscard]] std::byte* host() const { return block_.second; }

  void start(Pending inner, void* device, std::size_t offset, std::size_t bytes) {
    inner_ = std::move(inner);
    device_ = static_cast<std::byte*>(device);
    offset_ = offset;
    bytes_ = bytes;
  }

  [[nodiscard]] bool writes(const void* device, std::size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(device);
    return !done_ && std::less<>()(begin, device_ + bytes_) && std::less<>()(device_, begin + bytes);
  }

  void wait() override {
    if (failure_) std::rethrow_exception(failure_);
    if (done_) return;
    done_ = true;
    try {
      inner_.wait();
      if (bytes_ > 0) staging_->copies().to_device(device_, host() + offset_, bytes_);
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

 private:
  std::shared_ptr<Staging> staging_;
  std::pair<std::size_t, std::byte*> block_;
  Pending inner_;
  std::byte* device_ = nullptr;  ///< the result's place
  std::size_t offset_ = 0;       ///< the result's in the block
  std::size_t bytes_ = 0;
  bool done_ = false;
  std::exception_ptr failure_;
};

void Staging::settle(const void* device, std::size_t bytes) {
  std::erase_if(under_way_, [](const auto& operation) { return operation.expired(); });
  for (const auto& entry : under_way_) {
    const auto operation = entry.lock();
    if (operation && operation->writes(device, bytes)) operation->wait();
  }
}

void Staging::add(const std::shared_ptr<StagedOperation>& operation) {
  under_way_.push_back(operation);
}

class HostStagedCommunicator final : public Communicator {
 public:
  HostStagedCommunicator(std::unique_ptr<Communicator> host, std::shared_ptr<Staging> staging)
      : Communicator(host->rank(), host->size()), host_(std::move(host)), staging_(std::move(staging)) {}

  [[nodiscard]] Pending all_gather(void* buffer, std::size_t count, DType type,
                                   std::string_view label) override {
    const std::size_t slot = count * size_of(type);
    const std::size_t bytes = slot * static_cast<std::size_t>(size());
    const std::size_t own = slot * static_cast<std::size_t>(rank());
    staging_->settle(buffer, bytes);
    const auto operation = std::make_shared<StagedOperation>(staging_, bytes);
    fetch(operation->host() + own, static_cast<std::byte*>(buffer) + own, slot);
    operation->start(host_->all_gather(operation->host(), count, type, label), buffer, 0, bytes);
    return pending(operation);
  }

  [[nodiscard]] Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                       float scale, bool accumulate, std::string_view label) override {
    constexpr std::size_t kLine = 64;
    const std::size_t sent = count * size_of(in_type) * static_cast<std::size_t>(size());
    const std::size_t offset = (sent + kLine - 1) / kLine * kLine;
    const std::size_t received = count * sizeof(float);
    staging_->settle(input, sent);
    staging_->settle(output, received);
    const auto operation = std::make_shared<StagedOperation>(staging_, offset + received);
    fetch(operation->host(), input, sent);
    if (accumulate) fetch(operation->host() + offset, output, received);
    auto* sum = reinterpret_cast<float*>(operation->host() + offset);
    operation->start(host_->reduce_scatter(operation->host(), in_type, sum, count, scale, accumulate, label),
                     output, offset, received);
    return pending(operation);
  }

  [[nodiscard]] Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                   std::string_view label) override {
    const std::size_t bytes = count * size_of(type);
    staging_->settle(data, bytes);
    const auto operation = std::make_shared<StagedOperation>(staging_, bytes);
    fetch(operation->host(), data, bytes);
    operation->start(host_->all_reduce(operation->host(), count, type, op, label), data, 0, bytes);
    return pending(operation);
  }

  [[nodiscard]] std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override {
    return host_->gather_blobs(mine, label);
  }
  void barrier(std::string_view label) override { host_->barrier(label); }
  [[nodiscard]] std::unique_ptr<Communicator> split(const ColorOf& color_of) override {
    return std::make_unique<HostStagedCommunicator>(host_->split(color_of), staging_);
  }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return host_->sent_bytes(); }
  [[nodiscard]] std::vector<std::string> recent() const override { return host_->recent(); }

 private:
  void fetch(std::byte* host, const void* device, std::size_t bytes) const {
    if (bytes > 0) staging_->copies().to_host(host, device, bytes);
  }
  [[nodiscard]] Pending pending(const std::shared_ptr<StagedOperation>& operation) const {
    staging_->add(operation);
    return Pending(operation);
  }

  std::unique_ptr<Communicator> host_;
  std::shared_ptr<Staging> staging_;
};

}  // namespace

std::unique_ptr<Communicator> make_host_staged_communicator(std::unique_ptr<Communicator> host,
                                                            DeviceCopies copies) {
  return std::make_unique<HostStagedCommunicator>(std::move(host),
                                                  std::make_shared<Staging>(std::move(copies)));
}

}  // namespace echelon
