#pragma once
#include <cstring>

#include "base/dtype.h"
#include "comm/local_communicator.h"

namespace echelon::test {

/// The first of several ranks, whose collectives do nothing and are done at once, for communicators that
/// differ in one of them. The others' weights are zero: what is in memory by chance may be no number.
class SilentCommunicator : public Communicator {
 public:
  using Communicator::Communicator;
  Pending all_gather(void* buffer, std::size_t count, DType type, std::string_view) override {
    const std::size_t own = count * size_of(type);
    std::memset(static_cast<std::byte*>(buffer) + own, 0, own * static_cast<std::size_t>(size() - 1));
    return {};
  }
  Pending reduce_scatter(void*, DType, float*, std::size_t, float, bool, std::string_view) override {
    return {};
  }
  Pending all_reduce(void*, std::size_t, DType, ReduceOp, std::string_view) override { return {}; }
  std::vector<Blob> gather_blobs(const Blob& mine, std::string_view) override {
    return std::vector<Blob>(static_cast<std::size_t>(size()), mine);
  }
  void barrier(std::string_view) override {}
  std::unique_ptr<Communicator> split(const ColorOf&) override {
    return std::make_unique<LocalCommunicator>();
  }
  std::uint64_t sent_bytes() const override { return 0; }
  std::vector<std::string> recent() const override { return {}; }
};

}  // namespace echelon::test
