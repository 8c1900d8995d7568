#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/decoder.h"
#include "model/layer.h"
#include "shapes/options.h"

namespace echelon {

/// Element types of a model other than those of its weights.
struct ModelTypes {
  ModelTypes(at::ScalarType b, at::ScalarType o = at::kFloat)
      : buffer(b), output(o) {}  // NOLINT: meant to be
  at::ScalarType buffer;         ///< constant tables are rounded to it
  at::ScalarType output;  ///< logits are rounded to it where it is narrower than what they are computed in
};

/// A network: layers in forward order and what they compute. Built without storage: shapes only, until an
/// owner (the sharding engine, or materialise()) sets every Parameter::value.
class Model {
 public:
  virtual ~Model() = default;

  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  /// A parameter used by more than one layer (a tied embedding).
  struct Shared {
    std::unique_ptr<Parameter> parameter;
    std::vector<const Layer*> users;
  };
  [[nodiscard]] const std::vector<Shared>& shared() const { return shared_; }
  /// Shared ones first, then those of the layers in forward order.
  [[nodiscard]] std::vector<Parameter*> parameters() const;
  [[nodiscard]] std::int64_t numel() const;

  /// The cross entropy SUMMED over the targets that are not ignored (fp32 scalar). Under autograd, backward()
  /// of it yields gradients multiplied by `gradient_scale`.
  [[nodiscard]] virtual at::Tensor loss(const Batch& batch, double gradient_scale) = 0;

  /// The loss, and where there are classes how many samples are right. Called without autograd.
  [[nodiscard]] virtual Score evaluate(const Batch& batch) { return {loss(batch, 0.0), {}}; }

  /// Continues `prompts`: ids and sequences of a language model, or an encoder's input. Throws Error(kUsage)
  /// for a model that cannot generate.
  [[nodiscard]] virtual std::unique_ptr<Decoder> decoder(const Batch& prompts) const;

  /// Hugging Face config.json of this architecture, so that exported weights open in transformers.
  [[nodiscard]] virtual std::string hugging_face_config() const = 0;

  /// Multiply-adds times two of forward and backward for one sample (for MFU): 6 per weight of a matrix
  /// product and token plus attention (PaLM, appendix B).
  [[nodiscard]] virtual double flops_per_sample(const SampleShape& shape) const = 0;

 protected:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Shared> shared_;
};

/// Throws Error(kUsage) for an unknown kind.
[[nodiscard]] std::unique_ptr<Model> build_model(const ModelOptions& options, const ModelTypes& types,
                                                 at::Device device);

/// Whole, unsharded storage for every parameter with its initial values: single-process tools and oracles.
void materialise(Model& model, std::uint64_t seed, at::ScalarType dtype, at::Device device);

}  // namespace echelon
