#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/batch.h"
#include "model/decoder.h"
#include "model/layer.h"
#include "shapes/options.h"

namespace echelon {

/// Element types of a model other than those of its weights.
struct ModelTypes {
  ModelTypes(at::ScalarType b, at::ScalarType o = at::kFloat, bool f = false)  // NOLINT: implicit
      : buffer(b), output(o), fp8(f) {}
  at::ScalarType buffer;  ///< constant tables are rounded to it
  at::ScalarType output;  ///< logits are rounded to it if it is narrower than their compute type
  bool fp8;  ///< products of the blocks' matrices are of fp8 in training passes, where they would be of bf16
};

/// A network: layers in forward order and their computation. Built without storage: parameters have only
/// shapes until an owner (the sharding engine) sets every Parameter::value.
class Model {
 public:
  virtual ~Model() = default;

  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  /// A parameter used by more than one layer (a tied embedding), or within the pass of any (an adapter).
  struct Shared {
    std::shared_ptr<Parameter> parameter;
    std::vector<const Layer*> users;  ///< none: any layer may use it
  };
  [[nodiscard]] const std::vector<Shared>& shared() const { return shared_; }
  /// All parameters: shared ones first, then those of the layers in forward order.
  [[nodiscard]] std::vector<Parameter*> parameters() const;
  [[nodiscard]] std::int64_t numel() const;

  /// The cross entropy, summed (not averaged) over targets that are not ignored, or the loss of batch.pairs,
  /// which only decoder-only language models take, summed over pairs: fp32 scalar. Its backward() yields
  /// gradients multiplied by `gradient_scale`.
  [[nodiscard]] virtual at::Tensor loss(const Batch& batch, double gradient_scale) = 0;

  /// The loss and, for classifiers, the number of right samples. Call without autograd.
  [[nodiscard]] virtual Score evaluate(const Batch& batch) { return {loss(batch, 0.0), {}}; }

  /// The losses of chosen predictions of a language model, fp32 [n]: minus the log-probability of token
  /// `targets[i]` behind token number `tokens[i]` of batch.ids. Both int64 [n]. Call without autograd. Throws
  /// Error(kUsage) for a model that is no decoder-only language model.
  [[nodiscard]] virtual at::Tensor token_losses(const Batch& batch, const at::Tensor& tokens,
                                                const at::Tensor& targets);

  /// A decoder that continues `prompts`: `ids` and `sequences` of a language model, or the sources of an
  /// encoder-decoder. Throws Error(kUsage) for a model that cannot generate.
  [[nodiscard]] virtual std::unique_ptr<Decoder> decoder(const Batch& prompts) const;

  /// Used for MFU: 6 operations per token and weight of a matrix product, plus attention (PaLM, appendix B).
  [[nodiscard]] virtual SampleFlops flops_per_sample(const SampleShape& shape) const = 0;

 protected:
  explicit Model(ModelOptions options = {}, const ModelTypes& types = at::kFloat)
      : options_(std::move(options)), output_(types.output) {}
  /// Adds the next layer.
  Layer& add_layer(const std::string& name, Layer::Role role) {
    return *layers_.emplace_back(std::make_unique<Layer>(name, role));
  }

  const ModelOptions options_;
  const at::ScalarType output_;  ///< as ModelTypes::output
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Shared> shared_;
};

/// Builds the model of options.kind, without storage. `device`: where constant tables are. With adapters
/// (lora.rank above 0) everything that they do not train is frozen.
[[nodiscard]] std::unique_ptr<Model> build_model(const ModelOptions& options, const ModelTypes& types,
                                                 at::Device device, const LoraOptions& lora = {});

}  // namespace echelon
