#include "model/t5/t5_decoder.h"

#include <ATen/ATen.h>

#include <utility>

namespace echelon {

T5Decoder::T5Decoder(T5DecoderParts parts, T5Kept kept, at::Tensor first)
    : parts_(std::move(parts)), kept_(std::move(kept)), first_(std::move(first)) {}

at::Tensor T5Decoder::start() {
  encoded_ = parts_.encode();
  return step(first_);
}

at::Tensor T5Decoder::step(const at::Tensor& ids) {
  at::Tensor logits = parts_.logits(ids, encoded_, kept_);
  ++kept_.tokens;
  return logits;
}

void T5Decoder::reorder(const at::Tensor& rows) {
  for (auto& [block, cache] : kept_.self) cache.reorder(rows);
  for (auto& [block, cache] : kept_.source) cache.reorder(rows);
}

}  // namespace echelon
