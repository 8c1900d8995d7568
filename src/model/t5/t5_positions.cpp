#include "model/t5/t5_positions.h"

#include <ATen/ATen.h>

#include <cmath>

namespace echelon {

at::Tensor bucket_of_distance(const RelativeBuckets& buckets, std::int64_t span, at::Device device) {
  const at::Tensor distance = at::arange(1 - span, span, at::TensorOptions(at::kLong).device(device));
  const std::int64_t count = buckets.both_ways ? buckets.count / 2 : buckets.count;
  const at::Tensor away = buckets.both_ways ? distance.abs() : -distance.clamp_max(0);
  const std::int64_t exact = count / 2;
  // In fp32 and in this order of operations, as transformers' _relative_position_bucket: another rounding
  // could put a distance that lies exactly on a border into the neighboring bucket.
  const at::Tensor ratio = at::log(away.clamp_min(1).to(at::kFloat) / static_cast<double>(exact)) /
                           std::log(static_cast<double>(buckets.max_distance) / static_cast<double>(exact));
  const at::Tensor wide = (ratio * static_cast<double>(count - exact)).to(at::kLong) + exact;
  const at::Tensor bucket = at::where(away < exact, away, wide.clamp_max(count - 1));
  return buckets.both_ways ? bucket + distance.gt(0) * count : bucket;
}

}  // namespace echelon
