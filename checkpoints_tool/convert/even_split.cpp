#include "checkpoints_tool/convert/even_split.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/format/geometry.h"

namespace echelon::tool {

std::vector<std::vector<Share>> split_evenly(std::span<const checkpoint::TensorInfo> tensors, int ranks) {
  std::uint64_t total = 0;
  for (const auto& tensor : tensors) {
    if (__builtin_add_overflow(total, checkpoint::byte_count(tensor), &total))
      throw Error(Code::kCheckpoint, "the tensors are too large");
  }
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t stretch = total / count + (total % count != 0 ? 1 : 0);
  std::vector<std::vector<Share>> shares(count);
  std::uint64_t at = 0;  // byte in the concatenation of all tensors
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = size_of(tensors[i].dtype);
    const std::uint64_t elements = checkpoint::element_count(tensors[i]);
    for (std::uint64_t begin = 0; begin < elements;) {
      const std::uint64_t rank = at / stretch;
      // An element belongs to the rank its first byte belongs to.
      const std::uint64_t room = ((rank + 1) * stretch - at + size - 1) / size;
      const std::uint64_t end = begin + std::min(room, elements - begin);
      shares[rank].push_back({i, begin, end});
      at += (end - begin) * size;
      begin = end;
    }
  }
  return shares;
}

}  // namespace echelon::tool
