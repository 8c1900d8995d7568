#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "checkpoint/format/tensor.h"

namespace echelon::test {

/// The parameters of block `block` of a Llama: `prefix` and the names that transformers gives them. The
/// projections of keys and values have `keys` rows each.
inline std::vector<checkpoint::TensorInfo> llama_block(const std::string& prefix, int block,
                                                       std::int64_t hidden, std::int64_t keys,
                                                       std::int64_t inner) {
  std::vector<checkpoint::TensorInfo> tensors;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    tensors.push_back(
        {str(prefix, "model.layers.", block, ".", name, ".weight"), DType::kF32, std::move(shape)});
  };
  add("self_attn.q_proj", {hidden, hidden});
  add("self_attn.k_proj", {keys, hidden});
  add("self_attn.v_proj", {keys, hidden});
  add("self_attn.o_proj", {hidden, hidden});
  add("mlp.gate_proj", {inner, hidden});
  add("mlp.up_proj", {inner, hidden});
  add("mlp.down_proj", {hidden, inner});
  add("input_layernorm", {hidden});
  add("post_attention_layernorm", {hidden});
  return tensors;
}

}  // namespace echelon::test
