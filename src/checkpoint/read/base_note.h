#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/read/reader.h"

/// base.json: the weights that a checkpoint leaves out because they lie elsewhere and never change, such as
/// those below LoRA adapters.
namespace echelon::checkpoint {

inline constexpr std::string_view kBaseFile = "base.json";

struct BaseNote {
  struct Tensor {
    TensorInfo info;                ///< as the checkpoint would hold it: "model/...", the type in memory
    std::uint64_t fingerprint = 0;  ///< CRC-64/NVME of the whole tensor's bytes
  };
  std::string folder;           ///< absolute: a step folder, or a Hugging Face folder
  std::string save_id;          ///< of the step folder's checkpoint; empty: a Hugging Face folder
  std::vector<Tensor> tensors;  ///< by name

  /// Null: it is not left out.
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  [[nodiscard]] std::string text() const;
};

/// Throws Error(kCheckpoint) naming `what`.
[[nodiscard]] BaseNote parse_base_note(std::string_view text, const std::string& what);

/// Nothing: the checkpoint holds all of its model. Throws Error(kCheckpoint) where the file is damaged, or
/// lists a tensor that the checkpoint holds.
[[nodiscard]] std::optional<BaseNote> base_note_of(const Reader& reader);

}  // namespace echelon::checkpoint
