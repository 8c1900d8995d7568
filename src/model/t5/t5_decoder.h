#pragma once
#include <functional>

#include "model/decoder.h"
#include "model/t5/t5_block.h"

namespace echelon {

/// The computations of a T5 that token-by-token decoding needs.
struct T5DecoderParts {
  std::function<at::Tensor()> encode;  ///< the encoder's output for the sources
  /// Next tokens, int64 [rows] -> logits, fp32 [rows, vocabulary].
  std::function<at::Tensor(const at::Tensor& ids, const at::Tensor& encoded, T5Kept& kept)> logits;
};

/// Decoder of a T5: runs the encoder once, and computes keys and values of its output once.
class T5Decoder final : public Decoder {
 public:
  /// `first`: int64 [sources], the tokens that start the targets.
  T5Decoder(T5DecoderParts parts, T5Kept kept, at::Tensor first);

  at::Tensor start() override;
  at::Tensor step(const at::Tensor& ids) override;
  void reorder(const at::Tensor& rows) override;

 private:
  T5DecoderParts parts_;
  T5Kept kept_;
  at::Tensor first_;
  at::Tensor encoded_;
};

}  // namespace echelon
