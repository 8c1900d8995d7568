#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/read/reader.h"
#include "checkpoints_tool/convert/output_plan.h"

namespace echelon::tool {

/// Adds what OutputTensor::added says, a range of elements at a time. Holds the A of one tensor. One per
/// thread.
class MergedRead {
 public:
  explicit MergedRead(const checkpoint::Reader& reader) : reader_(reader) {}

  /// values[i] += element begin + i of the flattened product. `tensor` must outlive the next call.
  void add(const OutputTensor& tensor, std::uint64_t begin, std::span<float> values);

 private:
  /// Elements [begin, end) of a tensor of any floating-point type.
  void read(const checkpoint::TensorInfo& info, std::uint64_t begin, std::uint64_t end,
            std::vector<float>& to);

  const checkpoint::Reader& reader_;
  const OutputTensor* held_of_ = nullptr;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> row_;
  std::vector<std::byte> raw_;
};

/// Bytes that MergedRead takes for any tensor of the plan, where ranges have at most `elements` elements.
[[nodiscard]] std::uint64_t merge_bytes(const OutputPlan& plan, std::uint64_t elements);

}  // namespace echelon::tool
