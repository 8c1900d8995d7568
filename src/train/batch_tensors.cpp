#include "train/batch_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/ops/upload.h"

namespace echelon {
namespace {

template <class T>
at::Tensor tensor_of(const std::vector<T>& values, at::IntArrayRef shape, at::ScalarType type,
                     at::Device device) {
  // from_blob() takes no const pointer. `values` is only read: clone() and upload() copy it.
  const at::Tensor borrowed = at::from_blob(const_cast<T*>(values.data()), shape, type);  // NOLINT
  return device.is_cpu() ? borrowed.clone() : upload(borrowed, device);
}

/// Number of targets of a sample: the length of its target sequence, its number of tokens, or one class.
std::int64_t targets_of(const SampleBatch& s, std::size_t sample) {
  if (!s.target_lengths.empty()) return s.target_lengths[sample];
  if (!s.sample_lengths.empty()) return s.sample_lengths[sample];
  return s.lengths.empty() ? 1 : s.lengths[sample];
}

/// For each pair 1, or 0 if all targets of it are ignored.
std::vector<double> counted_pairs(const SampleBatch& s) {
  std::vector<double> counted;
  auto at = s.targets.begin();
  for (std::size_t i = 0; i + 1 < s.lengths.size(); i += 2) {
    const auto end = at + s.lengths[i] + s.lengths[i + 1];
    counted.push_back(std::any_of(at, end, [](std::int64_t target) { return target >= 0; }) ? 1 : 0);
    at = end;
  }
  return counted;
}

}  // namespace

Batch to_tensors(const SampleBatch& s, at::Device device, double dpo_beta) {
  Batch batch;
  batch.samples = s.samples;
  batch.first_sample = s.first_sample;
  if (!s.lengths.empty()) {
    batch.ids = tensor_of(s.ids, {static_cast<std::int64_t>(s.ids.size())}, at::kLong, device);
    batch.sequences = make_sequences(s.lengths);
    batch.by_sample = s.sample_lengths.empty() ? batch.sequences : make_sequences(s.sample_lengths);
  }
  if (!s.images.empty()) {
    const auto [channels, height, width] = s.image_shape;
    batch.images = tensor_of(s.images, {s.samples, channels, height, width}, at::kFloat, device);
  }
  batch.targets = tensor_of(s.targets, {static_cast<std::int64_t>(s.targets.size())}, at::kLong, device);
  if (!s.target_lengths.empty()) batch.target_sequences = make_sequences(s.target_lengths);
  if (!s.reference.empty()) {
    const auto pairs = static_cast<std::int64_t>(s.reference.size() / 2);
    batch.pairs = {.beta = dpo_beta,
                   .reference = tensor_of(s.reference, {pairs, 2}, at::kDouble, device),
                   .counted = tensor_of(counted_pairs(s), {pairs}, at::kDouble, device),
                   .sums = at::zeros({AnswerPairs::kSums}, at::TensorOptions(device).dtype(at::kDouble))};
  }
  return batch;
}

std::int64_t counted_targets(const SampleBatch& samples) {
  if (!samples.reference.empty()) {
    const std::vector<double> counted = counted_pairs(samples);
    return std::count(counted.begin(), counted.end(), 1.0);
  }
  return std::count_if(samples.targets.begin(), samples.targets.end(), [](std::int64_t t) { return t >= 0; });
}

void ignore_from(SampleBatch& samples, std::int64_t end) {
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < samples.samples; ++i) {
    const std::int64_t count = targets_of(samples, static_cast<std::size_t>(i));
    if (samples.first_sample + i >= end) std::fill_n(samples.targets.begin() + at, count, -1);
    at += count;
  }
}

}  // namespace echelon
