#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace echelon::families {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// The layout of a .safetensors file.
struct SafetensorsLayout {
  std::string head;                    ///< length field, JSON and padding: a multiple of 4 KiB
  std::vector<std::size_t> order;      ///< entries in file order: largest element type first, then by name
  std::vector<std::uint64_t> offsets;  ///< file offset of each entry, as numbered in the input
  std::uint64_t file_bytes = 0;
};

/// Throws Error(kCheckpoint) when the header would exceed the format's 100,000,000 bytes.
[[nodiscard]] SafetensorsLayout lay_out_safetensors(const std::vector<SafetensorsEntry>& entries);

}  // namespace echelon::families
