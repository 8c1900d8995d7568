#include "checkpoints_tool/merged_read.h"

#include <algorithm>

#include "checkpoint/format/geometry.h"
#include "families/convert.h"

namespace echelon::tool {
namespace {

/// Bytes of an element on the way from the checkpoint, at most, and in memory.
constexpr std::uint64_t kElementBytes = sizeof(double) + sizeof(float);

}  // namespace

void MergedRead::read(const checkpoint::TensorInfo& info, std::uint64_t begin, std::uint64_t end,
                      std::vector<float>& to) {
  raw_.resize((end - begin) * size_of(info.dtype));
  reader_.read(info.name, begin, end, raw_);
  to.resize(end - begin);
  families::convert(raw_, info.dtype, std::as_writable_bytes(std::span(to)), DType::kF32);
}

void MergedRead::add(const OutputTensor& tensor, std::uint64_t begin, std::span<float> values) {
  if (values.empty()) return;
  const LowRank& low = tensor.added.value();
  const auto inputs = static_cast<std::uint64_t>(low.a.shape.at(1));
  const auto rank = static_cast<std::uint64_t>(low.a.shape.at(0));
  if (held_of_ != &tensor) {
    held_of_ = nullptr;  // invalid until the read succeeds
    read(low.a, 0, checkpoint::element_count(low.a), a_);
    held_of_ = &tensor;
  }
  const std::uint64_t end = begin + values.size();
  const std::uint64_t first = begin / inputs;
  read(low.b, first * rank, ((end - 1) / inputs + 1) * rank, b_);
  const auto scale = static_cast<float>(low.scale);
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t row = at / inputs;
    const std::uint64_t column = at % inputs;
    const std::uint64_t count = std::min(inputs - column, end - at);
    row_.assign(count, 0.0F);
    for (std::uint64_t k = 0; k < rank; ++k) {
      const float factor = b_[(row - first) * rank + k];
      const float* from = a_.data() + k * inputs + column;
      for (std::uint64_t i = 0; i < count; ++i) row_[i] += factor * from[i];
    }
    float* to = values.data() + (at - begin);
    for (std::uint64_t i = 0; i < count; ++i) to[i] += scale * row_[i];
    at += count;
  }
}

std::uint64_t merge_bytes(const OutputPlan& plan, std::uint64_t elements) {
  std::uint64_t most = 0;
  for (const OutputFile& file : plan.files) {
    for (const OutputTensor& tensor : file.tensors) {
      if (!tensor.added) continue;
      const auto rank = static_cast<std::uint64_t>(tensor.added->a.shape.at(0));
      const auto inputs = static_cast<std::uint64_t>(tensor.added->a.shape.at(1));
      const std::uint64_t a = rank * inputs;
      const std::uint64_t b = rank * (elements / inputs + 2);
      most = std::max(most, (a + b) * kElementBytes + inputs * sizeof(float));
    }
  }
  return most;
}

}  // namespace echelon::tool
