#include "model/image_classifier.h"

#include <ATen/ATen.h>

namespace echelon {
namespace {

/// ATen's value for ignored targets.
constexpr std::int64_t kIgnored = -100;

at::Tensor summed_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor counted = at::where(targets < 0, kIgnored, targets);
  return at::nll_loss(at::log_softmax(logits, 1), counted, {}, at::Reduction::Sum, kIgnored);
}

}  // namespace

at::Tensor ImageClassifier::loss(const Batch& batch, double gradient_scale) {
  const at::Tensor sum = summed_cross_entropy(logits(batch).to(output_).to(at::kFloat), batch.targets);
  // Equals `sum`, but its gradient is multiplied by gradient_scale.
  const at::Tensor value = sum.detach();
  return value + (sum - value) * gradient_scale;
}

Score ImageClassifier::evaluate(const Batch& batch) {
  const at::Tensor scores = logits(batch).to(output_).to(at::kFloat);
  // Ignored targets are negative, so they never equal a class.
  const at::Tensor right = scores.argmax(1) == batch.targets;
  return {summed_cross_entropy(scores, batch.targets), right.sum().to(at::kFloat)};
}

}  // namespace echelon
