#include "recipe/keys/keys_table.h"

namespace echelon::recipe {

Choices float_types(std::initializer_list<FloatType> types, const char* unset) {
  Choices all;
  for (const FloatType type : types) {
    const char* meaning = type == FloatType::kUnset  ? unset
                          : type == FloatType::kFp32 ? "single precision"
                          : type == FloatType::kBf16 ? "bfloat16"
                                                     : "half precision";
    all.values.push_back({std::string(word_of(type)), meaning});
  }
  return all;
}

std::vector<Key> joined(const std::vector<std::vector<Key>>& parts) {
  std::vector<Key> all;
  for (const std::vector<Key>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = joined(
      {run_keys(), model_keys(), lora_keys(), shard_keys(), precision_keys(), activation_checkpointing_keys(),
       data_keys(), validation_keys(), image_keys(), optim_keys(), schedule_keys(), train_keys(),
       evaluation_keys(), checkpoint_keys(), metrics_keys(), cluster_keys()});
  return table;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> table{
      {"run", "Name, folder and seed of the run."},
      {"model", "What is trained. The defaults describe a 179 M parameter Llama."},
      {"model.rope_scaling", "Rotary positions of sequences longer than those of pretraining."},
      {"lora",
       "Low-rank adapters: with `rank` above 0 the model's weights are frozen and only small matrices beside "
       "them are trained. [More](lora.md)."},
      {"shard", "How weights, gradients and optimizer state are split over ranks."},
      {"shard.mesh",
       "The two groups of the hybrid strategies: ranks that share one copy of the state, and copies. `shard` "
       "x `replicate` = ranks."},
      {"shard.wrap", "Which parameters form a unit: the amount that is gathered at once."},
      {"precision", "Number types. `unset`: the preset's; without a preset: not cast."},
      {"activation_checkpointing", "Recomputing activations to save memory."},
      {"data", "What it is trained on."},
      {"data.validation", "What it is measured on."},
      {"data.image", "How image files become the model's input."},
      {"optim", "The optimizer."},
      {"optim.muon", "`optim.kind: muon`: how matrices move. [More](muon.md)."},
      {"schedule", "The learning rate by step."},
      {"train", "Device, length and batch of the run."},
      {"train.dpo", "`data.kind: preference`: direct preference optimization. [More](preference.md)."},
      {"evaluation", "Questions that the model answers while it trains. [More](evaluation.md)."},
      {"checkpoint", "When state is saved and what a run continues from."},
      {"metrics", "What is recorded during training."},
      {"cluster", "How long ranks wait for each other, and when a job's time ends."},
  };
  return table;
}

}  // namespace echelon::recipe
