#pragma once
#include <cstddef>
#include <memory>

#include "bootstrap/job.h"

namespace echelon::testing {

/// The job of this rank, for tests of several ranks. Set by main().
struct Ranks {
  std::unique_ptr<Job> job;
  [[nodiscard]] const JobInfo& info() const { return job->info(); }
};
inline Ranks& ranks() {
  static Ranks value;
  return value;
}

/// A value that tells rank and index apart, exactly representable in every type.
inline float value_at(int rank, std::size_t index) {
  return static_cast<float>(static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 61) - 30) *
         0.25F;
}

/// The values of all ranks together.
inline float sum_at(std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < ranks().info().size; ++rank) sum += value_at(rank, index);
  return sum;
}

}  // namespace echelon::testing
