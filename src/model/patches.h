#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace echelon {

/// Order of the values within a patch.
enum class PatchLayout {
  kChannelsFirst,  ///< channel, row, column, as in a convolution kernel
  kChannelsLast,   ///< row, column, channel
};

/// images [samples, channels, size, size] -> [samples, patches, channels * side * side], patches row by row.
[[nodiscard]] at::Tensor cut_patches(const at::Tensor& images, std::int64_t side, PatchLayout layout);

/// patches [samples, n, hidden] -> [samples * (n + 1), hidden]. Puts the class token [1, 1, hidden] before
/// the patches of each sample, and adds positions [1, n + 1, hidden].
[[nodiscard]] at::Tensor with_class_token(const at::Tensor& patches, const at::Tensor& class_token,
                                          const at::Tensor& positions);

}  // namespace echelon
