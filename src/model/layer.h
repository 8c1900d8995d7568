#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/parameter.h"

namespace echelon {

/// What an engine does around a layer's computation: gather the weights, prefetch the next, free them, and
/// the same for the backward pass through what it attaches to the two tensors.
class LayerHook {
 public:
  virtual ~LayerHook() = default;
  [[nodiscard]] virtual at::Tensor before(const at::Tensor& input) = 0;
  [[nodiscard]] virtual at::Tensor after(const at::Tensor& output) = 0;
};

/// A stretch of the computation with parameters of its own, run once per forward pass. The model decides what
/// a layer computes; the layer only carries parameters and the hook. Knows nothing of ranks.
class Layer {
 public:
  enum class Role {
    kEmbedding,  ///< first; its input are ids, which have no gradient
    kBlock,      ///< one of the repeated blocks
    kHead,       ///< last
  };
  Layer(std::string name, Role role) : name_(std::move(name)), role_(role) {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  template <class... Args>
  Parameter& add(Args&&... args) {
    return *parameters_.emplace_back(std::make_unique<Parameter>(std::forward<Args>(args)...));
  }

  /// body(input) -> output, one tensor each, between the hook's two calls.
  template <class Body>
  at::Tensor run(const at::Tensor& input, Body&& body) {
    if (hook_ == nullptr) return body(input);
    return hook_->after(body(hook_->before(input)));
  }

  void attach(LayerHook* hook) { hook_ = hook; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Role role() const { return role_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }

 private:
  std::string name_;
  Role role_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  LayerHook* hook_ = nullptr;
};

}  // namespace echelon
