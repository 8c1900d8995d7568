#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/read/reader.h"
#include "checkpoints_tool/convert/output_plan.h"
#include "shapes/options.h"

namespace echelon::tool {

/// The LoRA adapters in a checkpoint, which its adapter_config.json describes as peft does.
class Adapters {
 public:
  /// Throws Error(kCheckpoint) for adapters without that file, or with one that is not sound.
  explicit Adapters(const checkpoint::Reader& reader);

  /// Returns whether there are adapters; an ordinary checkpoint has none.
  [[nodiscard]] bool any() const { return !tensors_.empty(); }
  /// Every A and B, by the name without the prefix "model/".
  [[nodiscard]] const std::vector<checkpoint::TensorInfo>& tensors() const { return tensors_; }
  /// The adapters as a recipe describes them; `also_train`: the modules that were trained whole.
  [[nodiscard]] const LoraOptions& lora() const { return lora_; }
  /// Returns the update that the adapter of `weight` [outputs, inputs] adds, or nothing if the weight has no
  /// adapter. The adapter's tensors lie under `prefix`, or frozen ones under `model/`. Throws
  /// Error(kCheckpoint) for shapes that do not fit.
  [[nodiscard]] std::optional<LowRank> of(const checkpoint::TensorInfo& weight,
                                          std::string_view prefix) const;

  /// Throws Error(kCheckpoint) if every B under `prefix` is zero, because then nothing was trained.
  void require_trained(std::string_view prefix) const;

 private:
  const checkpoint::Reader& reader_;
  std::vector<checkpoint::TensorInfo> tensors_;
  LoraOptions lora_;
};

/// adapter_config.json with the base's name; empty: none is stated.
[[nodiscard]] std::string config_with_base(const std::string& text, const std::string& base);

}  // namespace echelon::tool
