#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace echelon {

/// T5's buckets of distances between tokens (Raffel et al., section 2.1): one per small distance, then
/// logarithmically wider ones up to max_distance; all larger distances share the last.
struct RelativeBuckets {
  std::int64_t count;
  std::int64_t max_distance;
  bool both_ways;  ///< half of the buckets are for keys after the query; false: these share bucket 0
};

/// int64 [2 * span - 1]: the bucket of distance (key - query) = index - (span - 1).
[[nodiscard]] at::Tensor bucket_of_distance(const RelativeBuckets& buckets, std::int64_t span,
                                            at::Device device);

}  // namespace echelon
