#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/fs.h"
#include "checkpoint/format/tensor.h"

/// The header of a .safetensors file: text in, checked structure out. The rules are those of the format's
/// reference library (huggingface/safetensors, tensor.rs), and some that are stricter, which
/// docs/echelon_ckpt.md lists.
namespace echelon::checkpoint {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
inline constexpr std::size_t kSafetensorsLength = 8;  ///< bytes of the length field in front of the header

struct SafetensorsTensor {
  TensorInfo info;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t bytes = 0;   ///< element count * size_of(dtype)
  /// "BOOL": an element type of the format that checkpoints cannot hold; info.dtype then has its size only.
  /// An old buffer may be of such a type beside good weights. Empty: none.
  std::string_view other_type;
};

/// "F32", "BF16", ... of an element type.
[[nodiscard]] std::string_view safetensors_name(DType type);

/// Size of the JSON behind the length field: within the file and the format's limit. Throws
/// Error(kCheckpoint) naming `what`, as all here do.
[[nodiscard]] std::uint64_t safetensors_header_bytes(std::span<const std::byte> length,
                                                     std::uint64_t file_bytes, const std::string& what);

/// Tensors by rising offset. `json`: the header behind the length field. Names are such as a checkpoint can
/// hold, none comes twice; the data ranges have the size of their tensor and cover the file exactly from the
/// header to its end.
[[nodiscard]] std::vector<SafetensorsTensor> parse_safetensors_header(std::string_view json,
                                                                      std::uint64_t file_bytes,
                                                                      const std::string& what);
/// Reads and parses the header of the open file `path`, which has `file_bytes` bytes.
[[nodiscard]] std::vector<SafetensorsTensor> load_safetensors_header(const fs::Fd& file,
                                                                     std::uint64_t file_bytes,
                                                                     const fs::Path& path);

}  // namespace echelon::checkpoint
