#include "reference/training.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "reference/models.h"
#include "shapes/llama_family.h"
#include "shapes/lora.h"

namespace echelon::reference {
namespace {

/// Muon's update of each of the matrices, one below the other. Rounds to bf16 where torch.optim.Muon does.
at::Tensor orthogonal(const at::Tensor& stack, const Dimensions& rows, const MuonOptions& muon) {
  const auto rounded = [](const at::Tensor& values) { return values.to(at::kBFloat16).to(at::kDouble); };
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : stack.split_with_sizes(rows)) {
    const auto height = static_cast<double>(part.size(0));
    const auto width = static_cast<double>(part.size(1));
    at::Tensor x = rounded(height > width ? part.t() : part);
    x = rounded(x / rounded(at::linalg_vector_norm(x)).clamp_min(1e-7));
    for (std::int64_t step = 0; step < muon.ns_steps; ++step) {
      const at::Tensor gram = rounded(at::mm(x, x.t()));
      const at::Tensor factor = rounded(-4.7750 * gram + 2.0315 * at::mm(gram, gram));
      x = rounded(3.4445 * x + at::mm(factor, x));
    }
    const double scale = muon.scale == MuonScale::kSpectral ? std::sqrt(std::max(1.0, height / width))
                                                            : 0.2 * std::sqrt(std::max(height, width));
    parts.push_back(scale * (height > width ? x.t() : x));
  }
  return at::cat(parts);
}

at::Tensor loss_sum(const Pass& pass, const SampleBatch& sample) {
  switch (class_of(pass.model.kind)) {
    case ModelClass::kLlama: return llama_loss(pass, sample);
    case ModelClass::kGpt2: return gpt2_loss(pass, sample);
    case ModelClass::kGptNeoX: return gpt_neox_loss(pass, sample);
    case ModelClass::kT5: return t5_loss(pass, sample);
    case ModelClass::kVit: return vit_loss(pass, sample);
    case ModelClass::kDeepVit: return deepvit_loss(pass, sample);
    case ModelClass::kCnn: return cnn_loss(pass, sample);
  }
  throw Error::internal("a kind of model without a reference");
}

}  // namespace

Training::Training(Options options, Weights start) : options_(std::move(options)) {
  for (const auto& [name, weight] : start) weights_[name] = weight.to(at::kDouble);
  for (const TensorShape& tensor : tensors_of(options_.model)) {
    const Dimensions rows = matrix_rows(tensor);
    if (!rows.empty() && !matches_any(options_.optim.muon.adamw, tensor.name)) matrices_[tensor.name] = rows;
  }
  if (options_.optim.ema_decay == 0) return;
  for (const auto& [name, weight] : weights_) {
    if (trains(name)) averages_[name] = weight.clone();
  }
}

bool Training::trains(const std::string& name) const {
  return !options_.optim.freezes(name) && is_trained(options_.lora, name);
}

Training::Step Training::step(const std::vector<SampleBatch>& samples, double lr, bool left_out) {
  const Step done = differentiate(samples);
  if (left_out) return done;
  const at::NoGradGuard no_grad;
  for (const auto& [name, gradient] : gradients_) {
    at::Tensor& largest = largest_[name];
    largest = largest.defined() ? at::maximum(largest, gradient.abs()) : gradient.abs();
  }
  clip(done.grad_norm);
  ++steps_;
  for (const auto& [name, gradient] : clipped_) update(name, weights_.at(name), gradient, lr);
  const double decay = options_.optim.ema_decay;
  for (auto& [name, average] : averages_) average = decay * average + (1 - decay) * weights_.at(name);
  return done;
}

Training::Step Training::differentiate(const std::vector<SampleBatch>& samples) {
  Weights used;  // of the type that computes
  std::vector<std::string> names;
  std::vector<at::Tensor> trained;
  gradients_.clear();
  for (const auto& [name, weight] : weights_) {
    used[name] = weight.to(options_.type);
    if (!trains(name)) continue;
    used[name] = used[name].detach().requires_grad_();
    names.push_back(name);
    trained.push_back(used[name]);
    gradients_[name] = at::zeros_like(weight);
  }
  double sum = 0;
  double targets = 0;
  for (const SampleBatch& sample : samples) {
    for (const std::int64_t target : sample.targets) targets += target >= 0 ? 1 : 0;
    const Pass pass{.model = options_.model,
                    .lora = options_.lora,
                    .weights = used,
                    .seed = options_.seed,
                    .sample = sample.first_sample};
    const at::Tensor loss = loss_sum(pass, sample);
    sum += loss.item<double>();
    // Summed here: backward() of several losses adds to gradients that may share their memory.
    const std::vector<at::Tensor> parts = torch::autograd::grad({loss}, trained, {}, false, false, true);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].defined()) gradients_[names[i]] += parts[i].to(at::kDouble);
    }
  }
  double squares = 0;
  for (auto& [name, gradient] : gradients_) {
    gradient /= targets;
    squares += gradient.square().sum().item<double>();
  }
  return {sum / targets, std::sqrt(squares)};
}

void Training::clip(double norm) {
  const TrainOptions& train = options_.train;
  const bool too_long = train.clip_grad_norm > 0 && norm > train.clip_grad_norm;
  clipped_.clear();
  for (const auto& [name, gradient] : gradients_) {
    at::Tensor value = too_long ? gradient * (train.clip_grad_norm / norm) : gradient;
    if (train.clip_grad_value > 0) value = at::clamp(value, -train.clip_grad_value, train.clip_grad_value);
    clipped_[name] = value;
  }
}

at::Tensor& Training::state(const std::string& name, const at::Tensor& like) {
  at::Tensor& found = states_[name];
  if (!found.defined()) found = at::zeros_like(like);
  return found;
}

void Training::update(const std::string& name, at::Tensor& weight, at::Tensor gradient, double lr) {
  const OptimOptions& optim = options_.optim;
  if (const double* factor = last_match(optim.lr_factors, name)) lr *= *factor;
  const double decay = matches_any(optim.no_decay, name) ? 0.0 : optim.weight_decay;
  switch (optim.kind) {
    case OptimKind::kMuon:
      if (const auto rows = matrices_.find(name); rows != matrices_.end()) {
        const double mu = optim.muon.momentum;
        at::Tensor& mean = state(name + "/momentum", weight);
        mean = mu * mean + (1 - mu) * gradient;
        if (optim.muon.nesterov) gradient = (1 - mu) * gradient + mu * mean;
        weight = weight - lr * decay * weight - lr * orthogonal(gradient, rows->second, optim.muon);
        return;
      }
      [[fallthrough]];
    case OptimKind::kAdamW:
    case OptimKind::kAnyPrecisionAdamW: {
      const auto [beta1, beta2] = optim.betas;
      at::Tensor& mean = state(name + "/mean", weight);
      at::Tensor& square = state(name + "/square", weight);
      mean = beta1 * mean + (1 - beta1) * gradient;
      square = beta2 * square + (1 - beta2) * gradient * gradient;
      const auto number = static_cast<double>(steps_);
      const at::Tensor mean_hat = mean / (1 - std::pow(beta1, number));
      const at::Tensor square_hat = square / (1 - std::pow(beta2, number));
      weight = weight - lr * decay * weight - lr * mean_hat / (at::sqrt(square_hat) + optim.eps);
      return;
    }
    case OptimKind::kSgd: {
      gradient = gradient + decay * weight;
      if (optim.momentum != 0) {
        at::Tensor& buffer = state(name + "/momentum", weight);
        buffer = optim.momentum * buffer + gradient;
        gradient = optim.nesterov ? gradient + optim.momentum * buffer : buffer;
      }
      weight = weight - lr * gradient;
      return;
    }
    case OptimKind::kAdadelta: {
      gradient = gradient + decay * weight;
      at::Tensor& square = state(name + "/square", weight);
      at::Tensor& moved = state(name + "/moved", weight);
      square = optim.rho * square + (1 - optim.rho) * gradient * gradient;
      const at::Tensor delta = at::sqrt(moved + optim.eps) / at::sqrt(square + optim.eps) * gradient;
      moved = optim.rho * moved + (1 - optim.rho) * delta * delta;
      weight = weight - lr * delta;
      return;
    }
  }
}

}  // namespace echelon::reference
