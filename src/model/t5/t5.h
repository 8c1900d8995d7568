#pragma once
#include "model/model.h"
#include "model/t5/t5_block.h"

namespace echelon {

/// T5 (Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer):
/// encoder and decoder with RMSNorm and biases for relative positions, each shared by all blocks of its
/// stack. With feed_forward relu and a tied head it is the model of the paper; with gated_gelu (Shazeer, GLU
/// Variants) and an untied head, version 1.1. Parameter names and layouts are those of transformers'
/// T5ForConditionalGeneration.
class T5 : public Model {
 public:
  T5(const ModelOptions& options, const ModelTypes& types);

  /// Teacher forcing: the decoder's input is each target sequence, shifted right by one after a start token.
  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  /// `prompts`: sources, the input of the encoder.
  std::unique_ptr<Decoder> decoder(const Batch& prompts) const override;
  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 private:
  class TokenByToken;  ///< its Decoder

  /// Encoder or decoder.
  struct Stack {
    Layer* embedding = nullptr;
    Layer* bias_layer = nullptr;
    Parameter* bias = nullptr;  ///< [buckets, heads]
    std::vector<Layer*> layers;
    std::vector<T5Block> blocks;
    std::optional<Norm> final_norm;
  };
  void add_stack(Stack& stack, const std::string& name, std::int64_t count, const ShapeTable& shapes);
  void add_head(const ShapeTable& shapes);

  /// ids [tokens] -> hidden states before the final norm. `encoded`: the encoder's output; undefined in the
  /// encoder.
  [[nodiscard]] at::Tensor body(const Stack& stack, const at::Tensor& ids, const T5Pass& pass,
                                const at::Tensor& encoded) const;
  [[nodiscard]] at::Tensor bias_of(const Stack& stack, std::int64_t span, at::Device device) const;
  /// Final norm and dropout.
  [[nodiscard]] at::Tensor finished(const Stack& stack, const at::Tensor& x, const T5Pass& pass) const;
  /// The encoder's output for the sources.
  [[nodiscard]] at::Tensor encoded(const Batch& batch) const;
  /// What the head's matrix multiplies: finished(), scaled by 1 / sqrt(hidden_size) if the head is tied.
  [[nodiscard]] at::Tensor head_input(const at::Tensor& x, const T5Pass& pass) const;

  Parameter* embedding_ = nullptr;
  Stack encoder_;
  Stack decoder_;
  Layer* head_layer_ = nullptr;
  Parameter* head_ = nullptr;  ///< == embedding_ when tied
};

}  // namespace echelon
