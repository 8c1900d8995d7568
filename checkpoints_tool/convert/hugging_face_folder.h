#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "checkpoints_tool/convert/conversion.h"

/// A Hugging Face folder as the output of a conversion.
namespace echelon::tool {

/// Prefixes of tensor names in a checkpoint.
inline constexpr std::string_view kModelPrefix = "model/";
inline constexpr std::string_view kAveragedPrefix = "ema/";
/// peft's description of LoRA adapters.
inline constexpr std::string_view kAdapterConfig = "adapter_config.json";
/// The default of --max-shard-size.
inline constexpr const char* kMaxShardSize = "5GB";

/// The tensor of a Reader or TensorSource under `prefix`; what was frozen has no average, because it is its
/// own. Null if there is none.
template <class Source>
const checkpoint::TensorInfo* stored_as(const Source& source, const std::string& name,
                                        std::string_view prefix) {
  const checkpoint::TensorInfo* stored = source.find(str(prefix, name));
  return stored != nullptr ? stored : source.find(str(kModelPrefix, name));
}

/// Throws Error(kCheckpoint) unless the checkpoint has the attachment config.json.
void check_has_config(const checkpoint::Reader& reader);

/// Adds config.json, the tokenizer's files and generation_config.json; the latter, and a
/// tokenizer_config.json beside a tokenizer.json, are made where the checkpoint has none. Throws
/// Error(kCheckpoint) when there is no sound config.json.
void add_companions(const checkpoint::Reader& reader, Conversion& conversion);
/// Has the config.json that was added state the type of most of the model's elements: transformers may load
/// all of them as that.
void state_type(const std::vector<OutputTensor>& model, Conversion& conversion);
[[nodiscard]] bool has_tokenizer(const Conversion& conversion);

/// Adds <stem>.safetensors, or its parts and their index. `max_shard_size` as on the command line.
void add_safetensors(std::vector<OutputTensor> tensors, const std::string& stem,
                     const std::optional<std::string>& max_shard_size, Conversion& conversion);

}  // namespace echelon::tool
