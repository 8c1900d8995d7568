#pragma once
#include <stdexcept>
#include <vector>

#include "comm/communicator.h"

namespace echelon::test {

/// One rank of several that says what it is but never needs the others: for what happens before the first
/// collective.
class AloneOf final : public Communicator {
 public:
  AloneOf(int rank, int size) : Communicator(rank, size) {}
  Pending all_gather(void*, std::size_t, DType, std::string_view) override { return unexpected(); }
  Pending reduce_scatter(void*, DType, float*, std::size_t, float, bool, std::string_view) override {
    return unexpected();
  }
  Pending all_reduce(void*, std::size_t, DType, ReduceOp, std::string_view) override { return unexpected(); }
  std::vector<Blob> gather_blobs(const Blob&, std::string_view) override { throw std::logic_error("used"); }
  void barrier(std::string_view) override { throw std::logic_error("used"); }
  std::unique_ptr<Communicator> split(const ColorOf&) override { throw std::logic_error("used"); }
  std::uint64_t sent_bytes() const override { return 0; }
  std::vector<std::string> recent() const override { return {}; }

 private:
  static Pending unexpected() { throw std::logic_error("a collective before anything was computed"); }
};

}  // namespace echelon::test
