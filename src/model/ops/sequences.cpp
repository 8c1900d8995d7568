#include "model/sequences.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "model/ops/upload.h"

namespace echelon {

SequenceLayout::SequenceLayout(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {
  begins_.reserve(lengths_.size());
  for (const std::int64_t length : lengths_) {
    if (length < 1) throw Error::internal("a sequence of ", length, " tokens");
    begins_.push_back(tokens_);
    tokens_ += length;
    longest_ = std::max(longest_, length);
  }
}

at::Tensor SequenceLayout::keep(at::Tensor Kept::*which, at::Device device,
                                const std::function<at::Tensor()>& make) const {
  const Lock lock(mutex_);
  at::Tensor& kept = kept_.*which;
  if (!kept.defined() || kept.device() != device) kept = upload(make(), device);
  return kept;
}

at::Tensor SequenceLayout::counted_from(const std::function<std::int64_t(std::int64_t)>& first) const {
  at::Tensor result = at::empty({tokens_}, at::kLong);
  auto* values = result.mutable_data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < count(); ++s)
    std::iota(values + begins_[s], values + begins_[s] + lengths_[s], first(s));
  return result;
}

at::Tensor SequenceLayout::positions(at::Device device) const {
  return keep(&Kept::positions, device, [this] { return counted_from([](std::int64_t) { return 0; }); });
}

at::Tensor SequenceLayout::sequence_numbers(at::Device device) const {
  return keep(&Kept::sequence_numbers, device, [this] {
    at::Tensor result = at::empty({tokens_}, at::kLong);
    auto* values = result.mutable_data_ptr<std::int64_t>();
    for (std::int64_t s = 0; s < count(); ++s) std::fill_n(values + begins_[s], lengths_[s], s);
    return result;
  });
}

at::Tensor SequenceLayout::tokens_of_rectangle(at::Device device) const {
  return keep(&Kept::tokens_of_rectangle, device, [this] {
    at::Tensor result = at::empty({count() * longest_}, at::kLong);
    auto* to = result.mutable_data_ptr<std::int64_t>();
    for (std::int64_t s = 0; s < count(); ++s) {
      for (std::int64_t i = 0; i < longest_; ++i) *to++ = begins_[s] + std::min(i, lengths_[s] - 1);
    }
    return result;
  });
}

at::Tensor SequenceLayout::places_in_rectangle(at::Device device) const {
  return keep(&Kept::places_in_rectangle, device,
              [this] { return counted_from([this](std::int64_t s) { return s * longest_; }); });
}

at::Tensor SequenceLayout::padding_of_rectangle(at::Device device) const {
  return keep(&Kept::padding_of_rectangle, device, [this] {
    at::Tensor result = at::zeros({count(), longest_}, at::kBool);
    for (std::int64_t s = 0; s < count(); ++s)
      result[s].narrow(0, lengths_[s], longest_ - lengths_[s]).fill_(true);
    return result;
  });
}

at::Tensor SequenceLayout::borders(at::Device device) const {
  return keep(&Kept::borders, device, [this] {
    at::Tensor result = at::empty({count() + 1}, at::kInt);
    auto* values = result.mutable_data_ptr<std::int32_t>();
    std::transform(begins_.begin(), begins_.end(), values,
                   [](std::int64_t begin) { return static_cast<std::int32_t>(begin); });
    values[count()] = static_cast<std::int32_t>(tokens_);
    return result;
  });
}

at::Tensor SequenceLayout::rows_at_positions(const at::Tensor& table) const {
  const at::Tensor places = positions(table.device());
  const Lock lock(mutex_);
  if (!kept_.table.is_same(table)) {
    kept_.rows = table.index_select(0, places);
    kept_.table = table;
  }
  return kept_.rows;
}

Sequences make_sequences(std::vector<std::int64_t> lengths) {
  return std::make_shared<const SequenceLayout>(std::move(lengths));
}

Sequences make_sequences(std::int64_t count, std::int64_t length) {
  return make_sequences(std::vector<std::int64_t>(static_cast<std::size_t>(count), length));
}

}  // namespace echelon
