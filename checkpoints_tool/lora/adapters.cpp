#include "checkpoints_tool/lora/adapters.h"

#include <algorithm>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "checkpoints_tool/lora/peft_config.h"
#include "families/convert.h"
#include "shapes/lora.h"

namespace echelon::tool {
namespace {

bool any_nonzero(const checkpoint::Reader& reader, const checkpoint::TensorInfo& tensor) {
  bool any = false;
  reader.read_in_parts(tensor.name, [&](std::span<const std::byte> part) {
    any = any || std::ranges::any_of(part, [](std::byte byte) { return byte != std::byte{0}; });
  });
  return any;
}

}  // namespace

Adapters::Adapters(const checkpoint::Reader& reader) : reader_(reader) {
  for (const checkpoint::TensorInfo& tensor : reader.tensors()) {
    if (!tensor.name.starts_with(kModelPrefix) || !is_adapter(tensor.name)) continue;
    tensors_.push_back(tensor);
    tensors_.back().name.erase(0, kModelPrefix.size());
  }
  if (tensors_.empty()) return;
  const std::string file(kAdapterConfig);
  if (!reader.has_attachment(file))
    throw Error(Code::kCheckpoint, "the checkpoint has adapters, but no ", kAdapterConfig,
                " that tells their scale; it cannot be exported");
  lora_ = lora_of_peft(reader.attachment(file), "the checkpoint's " + file).lora;
}

std::optional<LowRank> Adapters::of(const checkpoint::TensorInfo& weight, std::string_view prefix) const {
  const std::string_view module = module_of(weight.name);
  if (!weight.name.ends_with(".weight")) return std::nullopt;
  const checkpoint::TensorInfo* a = stored_as(reader_, adapter_a(module), prefix);
  const checkpoint::TensorInfo* b = stored_as(reader_, adapter_b(module), prefix);
  if (a == nullptr && b == nullptr) return std::nullopt;
  const auto fits = [&] {
    using Shape = std::vector<std::int64_t>;
    return a != nullptr && b != nullptr && families::is_floating(a->dtype) &&
           families::is_floating(b->dtype) && weight.shape.size() == 2 &&
           a->shape == Shape{lora_.rank, weight.shape[1]} && b->shape == Shape{weight.shape[0], lora_.rank};
  };
  if (fits()) return LowRank{*a, *b, lora_scale(lora_)};
  throw Error(Code::kCheckpoint, "the adapter of '", module, "' does not fit its weight ",
              checkpoint::shape_text(weight.shape), " and rank ", lora_.rank);
}

void Adapters::require_trained(std::string_view prefix) const {
  for (const checkpoint::TensorInfo& tensor : tensors_) {
    const checkpoint::TensorInfo* stored = stored_as(reader_, tensor.name, prefix);
    if (stored != nullptr && tensor.name == adapter_b(module_of(module_of(tensor.name))) &&
        any_nonzero(reader_, *stored))
      return;
  }
  throw Error(Code::kCheckpoint,
              "every B of the adapters is zero: nothing was trained, and the model is the base itself");
}

std::string config_with_base(const std::string& text, const std::string& base) {
  nlohmann::ordered_json config = parse_ordered_json(text, std::string(kAdapterConfig), Code::kCheckpoint);
  if (!base.empty()) config["base_model_name_or_path"] = base;
  return config.dump(2) + "\n";
}

}  // namespace echelon::tool
