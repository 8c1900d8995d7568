#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/ops/ops.h"
#include "shapes/lora.h"

namespace echelon {

/// The adapters of one matrix product, or of the products stacked in one: scale * B(A(dropout(x))) is added
/// to the columns of each. Stacked products have one input, and so one mask of dropout.
class Adapter {
 public:
  /// Makes the parameters, which belong to the unit that is gathered for the whole pass. Nothing: no part of
  /// `product`, a weight, is among `adapted`.
  [[nodiscard]] static std::optional<Adapter> of(const Parameter& product,
                                                 const std::vector<AdaptedMatrix>& adapted,
                                                 const LoraOptions& lora);

  /// The A of every adapter, stacked: [adapters * rank, inputs].
  [[nodiscard]] const std::shared_ptr<Parameter>& a() const { return a_; }
  /// The B of every adapter, stacked: [sum of outputs, rank].
  [[nodiscard]] const std::shared_ptr<Parameter>& b() const { return b_; }

  /// y [tokens, outputs of the product], changed in place where types allow. x [tokens, inputs] and
  /// `x_again`: as in ops::linear. `draws`: for dropout.
  [[nodiscard]] at::Tensor added_to(const at::Tensor& y, const at::Tensor& x, const ops::Recompute& x_again,
                                    const Batch& draws) const;

 private:
  explicit Adapter(const LoraOptions& lora) : scale_(lora_scale(lora)), dropout_(lora.dropout) {}

  std::shared_ptr<Parameter> a_;
  std::shared_ptr<Parameter> b_;
  std::vector<ops::Columns> places_;
  double scale_;
  double dropout_;
  std::string site_;  ///< of dropout
};

}  // namespace echelon
