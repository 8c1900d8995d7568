#pragma once
#include <cstdint>

namespace echelon::test {

/// While it lives, operator new fails as where no memory is left, in every thread of the process: `times`
/// times from its nth call on. This program's operator new is replaced for that; what C libraries take by
/// malloc is not counted, and what the JSON library's destructor takes is not refused. One at a time.
class FailingAllocations {
 public:
  explicit FailingAllocations(std::int64_t nth, std::int64_t times = 1);
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  ~FailingAllocations();

  [[nodiscard]] bool struck() const;  ///< has any failed?
};

/// While it lives, what this thread allocates is neither counted nor refused: the test's own.
class SparedAllocations {
 public:
  SparedAllocations();
  SparedAllocations(const SparedAllocations&) = delete;
  SparedAllocations& operator=(const SparedAllocations&) = delete;
  ~SparedAllocations();
};

}  // namespace echelon::test
