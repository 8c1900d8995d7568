#pragma once
#include <ATen/core/Tensor.h>

namespace echelon {

/// Continues sequences token by token. Keys and values are cached, so a step computes only one token per row.
/// A row is one continuation; initially there is one per prompt. Call without autograd, from one thread. The
/// model must outlive it. With a sharded model start() and step() are collective: all ranks make the same
/// calls, each with its own rows.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Processes the prompts. Returns the logits of the token after each, fp32 [prompts, vocabulary]. Must be
  /// called once, first.
  [[nodiscard]] virtual at::Tensor start() = 0;

  /// Appends `ids`, int64 [rows], the next token of each row. Returns the logits of the token after it, fp32
  /// [rows, vocabulary]. Throws Error(kUsage) if a row would exceed the model's positions.
  [[nodiscard]] virtual at::Tensor step(const at::Tensor& ids) = 0;

  /// Replaces the rows: new row i is a copy of old row rows[i]. `rows`: int64 [n], any n.
  virtual void reorder(const at::Tensor& rows) = 0;
};

}  // namespace echelon
