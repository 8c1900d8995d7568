#pragma once
#include "base/str.h"
#include "support/llama_tensors.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint::test {

/// A Llama of one layer.
inline Example llama(bool tied) {
  Example example{.ranks = 3, .cut = random_cut(4)};
  example.attachments["config.json"] =
      str(R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "vocab_size": 10,)",
          R"("num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,)",
          R"("tie_word_embeddings": )", tied ? "true" : "false", "}");
  example.attachments["generation_config.json"] = "{}";
  example.tensors = {{"model/model.embed_tokens.weight", DType::kF32, {10, 8}},
                     {"model/model.norm.weight", DType::kF32, {8}},
                     {"optim/model.norm.weight/exp_avg", DType::kF32, {8}}};
  if (!tied) example.tensors.push_back({"model/lm_head.weight", DType::kF32, {10, 8}});
  for (const TensorInfo& tensor : llama_block("model/", 0, 8, 4, 12)) example.tensors.push_back(tensor);
  return example;
}

}  // namespace echelon::checkpoint::test
