#include "model/sequences.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace echelon {

SequenceLayout::SequenceLayout(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {
  begins_.reserve(lengths_.size());
  for (const std::int64_t length : lengths_) {
    if (length < 1)
      throw Error(Code::kUsage, str("a sequence of ", length, " tokens; expected at least one"));
    begins_.push_back(tokens_);
    tokens_ += length;
    longest_ = std::max(longest_, length);
  }
}

at::Tensor SequenceLayout::positions(at::Device device) const {
  at::Tensor result = at::empty({tokens_}, at::kLong);
  auto* values = result.mutable_data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < count(); ++s)
    std::iota(values + begins_[s], values + begins_[s] + lengths_[s], 0);
  return result.to(device);
}

at::Tensor SequenceLayout::sequence_numbers(at::Device device) const {
  at::Tensor result = at::empty({tokens_}, at::kLong);
  auto* values = result.mutable_data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < count(); ++s) std::fill_n(values + begins_[s], lengths_[s], s);
  return result.to(device);
}

Sequences make_sequences(std::vector<std::int64_t> lengths) {
  return std::make_shared<const SequenceLayout>(std::move(lengths));
}

Sequences make_sequences(std::int64_t count, std::int64_t length) {
  return make_sequences(std::vector<std::int64_t>(static_cast<std::size_t>(count), length));
}

}  // namespace echelon
