#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/parameter.h"

namespace echelon {

/// Inputs of a layer: first the hidden states, then others (an encoder's output, a position bias). Every
/// tensor that needs a gradient must be an input: a body that captured it would hide it from recomputation.
using LayerInputs = std::vector<at::Tensor>;

/// The computation of a layer. Recomputation keeps a copy of it until backward, so it must capture by value
/// what does not live as long as the model.
using LayerBody = std::function<at::Tensor(const LayerInputs&)>;

/// What an engine does around a layer's computation: gather its weights, prefetch the next ones, free them,
/// recompute in backward.
class LayerHook {
 public:
  virtual ~LayerHook() = default;
  [[nodiscard]] virtual at::Tensor run(const LayerInputs& inputs, const LayerBody& body) = 0;
  /// Layers inside recompute cheap intermediate values (norms, activations) in backward instead of keeping
  /// them.
  [[nodiscard]] virtual bool recomputes_cheap() const { return false; }
};

/// A part of the computation with parameters and child layers: the model is a tree of them. Weights are
/// gathered and activations recomputed per layer. The model decides what a layer computes; the layer carries
/// parameters and the hook. Knows nothing of ranks.
class Layer {
 public:
  enum class Role {
    kEmbedding,  ///< its input are ids, which have no gradient
    kBlock,      ///< one of the repeated blocks
    kHead,       ///< last
    kPart,       ///< part of one of the above
  };
  Layer(std::string name, Role role) : name_(std::move(name)), role_(role) {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  template <class... Args>
  Parameter& add(Args&&... args) {
    return *parameters_.emplace_back(std::make_unique<Parameter>(std::forward<Args>(args)...));
  }
  Layer& add_layer(std::string name) {
    return *layers_.emplace_back(std::make_unique<Layer>(std::move(name), Role::kPart));
  }

  /// body(inputs), with the hook around it.
  [[nodiscard]] at::Tensor run(const LayerInputs& inputs, const LayerBody& body) const {
    return hook_ == nullptr ? body(inputs) : hook_->run(inputs, body);
  }
  /// The same for a body of one input.
  template <class Body>
  [[nodiscard]] at::Tensor run(const at::Tensor& input, Body body) const {
    return run(LayerInputs{input},
               LayerBody([body = std::move(body)](const LayerInputs& in) { return body(in.front()); }));
  }

  void attach(LayerHook* hook) { hook_ = hook; }
  [[nodiscard]] bool hooked() const { return hook_ != nullptr; }
  [[nodiscard]] bool recomputes_cheap() const { return hook_ != nullptr && hook_->recomputes_cheap(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Role role() const { return role_; }
  /// Its own ones, without those of layers inside.
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
