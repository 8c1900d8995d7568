#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/not_copied.h"
#include "model/parameter.h"

namespace echelon {

/// Inputs of a layer: the hidden states, then others (an encoder's output, a position bias). Every tensor
/// that needs a gradient must be an input, because recomputation does not see what a body captures.
using LayerInputs = std::vector<at::Tensor>;

/// The computation of a layer. Recomputation keeps a copy until backward, so everything that may not outlive
/// it must be captured by value.
using LayerBody = std::function<at::Tensor(const LayerInputs&)>;

/// The sharding engine's work around a layer's computation: gather, prefetch and free weights, recompute in
/// backward.
class LayerHook {
 public:
  virtual ~LayerHook() = default;
  /// Returns body(inputs).
  [[nodiscard]] virtual at::Tensor run(const LayerInputs& inputs, const LayerBody& body) = 0;
  /// True if operations in the layer should recompute cheap intermediate values (norms, activations) in
  /// backward instead of keeping them.
  [[nodiscard]] virtual bool recomputes_cheap() const { return false; }
};

/// A node of the model's tree, with parameters and child layers. Weights are gathered and activations
/// recomputed per layer. The model defines what a layer computes; the layer holds the parameters and the
/// hook. Knows no ranks.
class Layer : NotCopied {
 public:
  enum class Role {
    kEmbedding,  ///< inputs are ids, which have no gradient
    kBlock,      ///< one of the repeated blocks
    kHead,       ///< the last layer, which computes the output or the loss
    kPart,       ///< any other layer, usually a part of one of these
  };
  Layer(std::string name, Role role) : name_(std::move(name)), role_(role) {}

  template <class... Args>
  Parameter& add(Args&&... args) {
    return *parameters_.emplace_back(std::make_unique<Parameter>(std::forward<Args>(args)...));
  }
  Layer& add_layer(std::string name) {
    return *layers_.emplace_back(std::make_unique<Layer>(std::move(name), Role::kPart));
  }

  /// Runs body(inputs), inside the hook if there is one.
  [[nodiscard]] at::Tensor run(const LayerInputs& inputs, const LayerBody& body) const {
    return hook_ == nullptr ? body(inputs) : hook_->run(inputs, body);
  }
  /// Runs a body of one input.
  template <class Body>
  [[nodiscard]] at::Tensor run(const at::Tensor& input, Body body) const {
    return run(LayerInputs{input},
               LayerBody([body = std::move(body)](const LayerInputs& in) { return body(in.front()); }));
  }

  /// Sets the hook, which must outlive the layer or be detached; null: none.
  void attach(LayerHook* hook) { hook_ = hook; }
  [[nodiscard]] bool hooked() const { return hook_ != nullptr; }
  [[nodiscard]] bool recomputes_cheap() const { return hook_ != nullptr && hook_->recomputes_cheap(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Role role() const { return role_; }
  /// Own parameters, without those of child layers.
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }

 private:
  std::string name_;
  Role role_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<Layer>> layers_;
  LayerHook* hook_ = nullptr;
};

}  // namespace echelon
