#pragma once
#include <ATen/core/Tensor.h>

namespace echelon {

/// Continues sequences token by token with cached keys and values, so that a step costs one token. A row is
/// one continuation; at first there is one for each prompt. Called without autograd, from one thread; the
/// model outlives it. Under a sharded model every call is collective: all ranks make the same calls, each
/// with rows of its own.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Reads the prompts: the logits of the token after each, fp32 [prompts, vocabulary]. Called first and
  /// once.
  [[nodiscard]] virtual at::Tensor start() = 0;

  /// `ids`, int64 [rows]: the next token of each row. The logits of the token after it, fp32 [rows,
  /// vocabulary]. Throws Error(kUsage) where a row would grow longer than the model's positions reach.
  [[nodiscard]] virtual at::Tensor step(const at::Tensor& ids) = 0;

  /// `rows`, int64 [any number]: the new row i is a copy of the old row rows[i].
  virtual void reorder(const at::Tensor& rows) = 0;
};

}  // namespace echelon
