#pragma once
#include <atomic>
#include <cstdint>

#include "support/in_use.h"

namespace echelon::test {

/// The real disk; counts the bytes that are read.
class CountingDisk : public fs::Disk {
 public:
  ssize_t pread(int fd, void* to, std::size_t size, off_t offset) override {
    const ssize_t n = Disk::pread(fd, to, size, offset);
    if (n > 0) read_ += static_cast<std::uint64_t>(n);
    return n;
  }
  /// Since the last call.
  std::uint64_t read() { return read_.exchange(0); }

 private:
  std::atomic<std::uint64_t> read_{0};
};

}  // namespace echelon::test
