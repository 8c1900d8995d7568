#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

/// Tensors as a checkpoint knows them: names, shapes and bytes.
namespace echelon::checkpoint {

/// A whole (global) tensor, whoever holds it.
struct TensorInfo {
  std::string name;  ///< e.g. "model/model.layers.0.mlp.up_proj.weight", "optim/<same>/exp_avg"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
};

/// Elements [begin, end) of the flattened tensor, held by this rank.
struct Slice {
  TensorInfo tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::span<const std::byte> bytes;  ///< (end - begin) * size_of(dtype); or else:
  /// Fills `to` with the slice's bytes from byte `at` on; called with rising `at`, from one thread.
  std::function<void(std::uint64_t at, std::span<std::byte> to)> read = {};
};

}  // namespace echelon::checkpoint
