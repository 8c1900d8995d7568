#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// `model.safetensors.index.json`: which of several .safetensors files holds which tensor.
namespace echelon::checkpoint {

inline constexpr std::uint64_t kMaxWeightIndexBytes = std::uint64_t{64} << 20;

struct WeightIndex {
  std::optional<std::uint64_t> total_size;   ///< bytes of all tensors, where the index states it
  std::map<std::string, std::string> files;  ///< tensor -> file, a plain name in the index's own folder
};

/// Names of tensors are such as a checkpoint can hold; names of files have the characters of attachments and
/// end in ".safetensors", so none leads out of the folder. Throws Error(kCheckpoint) naming `what`.
[[nodiscard]] WeightIndex parse_weight_index(std::string_view text, const std::string& what);

}  // namespace echelon::checkpoint
