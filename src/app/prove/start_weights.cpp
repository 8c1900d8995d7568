#include "app/prove/start_weights.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "base/files/fs.h"
#include "base/half.h"
#include "base/philox.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "shapes/lora.h"

namespace echelon::app {

Tensors start_weights(const Recipe& recipe) {
  Tensors weights;
  for (const TensorShape& shape : tensors_of(recipe.model, recipe.lora)) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape.dimensions) count *= size;
    const bool vector = shape.dimensions.size() == 1;
    const std::int64_t rows = shape.dimensions.front();
    double deviation = vector ? 0.2 : 1 / std::sqrt(static_cast<double>(count) / static_cast<double>(rows));
    if (!vector && count == rows) deviation = 0.2;
    // T5 does not scale its scores: its queries are small instead.
    if (shape.name.ends_with(".q.weight"))
      deviation /= std::sqrt(static_cast<double>(head_size(recipe.model)));
    // An adapter's update is as large as the product that it is added to.
    if (shape.name.ends_with(".lora_B.weight")) deviation /= lora_scale(recipe.lora);
    const double mean = vector && !shape.name.ends_with("bias") ? 1 : 0;
    const std::uint64_t key = stream_key(1, shape.name);
    std::vector<float>& values = weights[shape.name];
    const bool frozen = is_frozen(recipe, shape.name);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(mean + deviation * normal_at(key, static_cast<std::uint64_t>(i)));
      values.push_back(frozen ? bf16_to_float(float_to_bf16(value)) : value);
    }
  }
  return weights;
}

Tensors without_blocks(Tensors weights, const ModelOptions& model) {
  std::set<std::string> others;  // than those of blocks
  for (const LayerShapes& layer : shapes_of(model)) {
    for (const TensorShape& tensor : layer.tensors) {
      if (!layer.repeats) others.insert(layer.prefix + tensor.name);
    }
  }
  for (auto& [name, values] : weights) {
    if (!others.contains(name)) std::ranges::fill(values, 0.0F);
  }
  return weights;
}

bool is_frozen(const Recipe& recipe, const std::string& tensor) {
  return recipe.optim.freezes(tensor) || !is_trained(recipe.lora, tensor);
}

std::filesystem::path write_start(const Tensors& weights, const Recipe& recipe,
                                  const std::filesystem::path& folder) {
  const std::string id = checkpoint::new_save_id();
  const std::filesystem::path step = folder / checkpoint::step_folder_name(0, id);
  fs::make_directories(step, Code::kCheckpoint);
  checkpoint::CommitInfo info{
      .step = 0, .save_id = id, .ranks = 1, .tensors = {}, .trainer_state = "{}", .attachments = {}};
  std::vector<checkpoint::Slice> slices;
  for (const TensorShape& shape : tensors_of(recipe.model, recipe.lora)) {
    const std::vector<float>& values = weights.at(shape.name);
    info.tensors.push_back({"model/" + shape.name, DType::kF32, shape.dimensions});
    slices.push_back({.tensor = info.tensors.back(),
                      .begin = 0,
                      .end = values.size(),
                      .bytes = std::as_bytes(std::span(values))});
  }
  checkpoint::write_shard(step, 0, 1, id, std::move(slices));
  (void)checkpoint::commit(step, info);
  return step;
}

}  // namespace echelon::app
