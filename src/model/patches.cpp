#include "model/patches.h"

#include <ATen/ATen.h>

namespace echelon {

at::Tensor cut_patches(const at::Tensor& images, std::int64_t side, PatchLayout layout) {
  // [samples, channels, patch row, patch column, row, column]
  const at::Tensor cut = images.unfold(2, side, side).unfold(3, side, side);
  const bool channels_first = layout == PatchLayout::kChannelsFirst;
  const at::Tensor ordered =
      channels_first ? cut.permute({0, 2, 3, 1, 4, 5}) : cut.permute({0, 2, 3, 4, 5, 1});
  return ordered.reshape({images.size(0), cut.size(2) * cut.size(3), images.size(1) * side * side});
}

at::Tensor with_class_token(const at::Tensor& patches, const at::Tensor& class_token,
                            const at::Tensor& positions) {
  const at::Tensor first = class_token.expand({patches.size(0), 1, patches.size(2)});
  return (at::cat({first, patches}, 1) + positions).flatten(0, 1);
}

}  // namespace echelon
