#pragma once
#include "base/files/disk.h"

namespace echelon::test {

/// A disk of tests that this process uses while it lives: `InUse<FaultyDisk> disk(fs::disk(), {...})`.
template <class OfTests>
class InUse : public OfTests {
 public:
  using OfTests::OfTests;

 private:
  fs::DiskInUse in_use_{*this};
};

}  // namespace echelon::test
