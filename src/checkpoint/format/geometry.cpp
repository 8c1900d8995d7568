#include "checkpoint/format/geometry.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {

std::optional<std::uint64_t> count_elements(std::span<const std::int64_t> shape, DType dtype) {
  if (shape.size() > kMaxDims || size_of(dtype) == 0) return std::nullopt;
  const std::uint64_t limit = kMaxTensorBytes / size_of(dtype);
  std::uint64_t count = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || dim > kMaxDim) return std::nullopt;
    // Divides instead of multiplying, so that a hostile shape cannot overflow.
    if (dim != 0 && count > limit / static_cast<std::uint64_t>(dim)) return std::nullopt;
    count *= static_cast<std::uint64_t>(dim);
  }
  return count;
}

std::uint64_t element_count(const TensorInfo& tensor) {
  const auto count = count_elements(tensor.shape, tensor.dtype);
  if (!count) {
    throw Error(Code::kCheckpoint, "tensor '", tensor.name, "': shape ", shape_text(tensor.shape), " of ",
                name_of(tensor.dtype), " is out of bounds (8 dimensions, 2^40 each, 1 PiB)");
  }
  return *count;
}

std::uint64_t byte_count(const TensorInfo& tensor) {
  return element_count(tensor) * size_of(tensor.dtype);
}

std::uint64_t byte_count(std::span<const TensorInfo> tensors) {
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) sum += byte_count(tensor);
  return sum;
}

void check_tensors(std::span<const TensorInfo> tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : tensors) {
    if (const std::string problem = tensor_name_problem(tensor.name); !problem.empty()) {
      throw Error(Code::kCheckpoint, "tensor name '", tensor.name.substr(0, 300), "' ", problem);
    }
    (void)element_count(tensor);
    names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i] == names[i - 1]) throw Error(Code::kCheckpoint, "tensor '", names[i], "' is listed twice");
  }
  for (const std::string_view name : names) {
    for (auto at = name.find('/'); at != std::string_view::npos; at = name.find('/', at + 1)) {
      // Looked up prefix by prefix: in sorted order "a.b" may stand between "a" and "a/b".
      if (!std::ranges::binary_search(names, name.substr(0, at))) continue;
      throw Error(Code::kCheckpoint, "tensor '", name.substr(0, at), "' cannot be stored beside '", name,
                  "': HDF5 would need it to be a tensor and a group");
    }
  }
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return str('[', join(mapped(shape, [](std::int64_t dim) { return std::to_string(dim); }), ", "), ']');
}

std::optional<DType> dtype_named(std::string_view name) {
  const auto* found =
      std::find_if(kDTypes + 1, std::end(kDTypes), [&](auto& type) { return type.first == name; });
  return found == std::end(kDTypes) ? std::nullopt : std::optional(static_cast<DType>(found - kDTypes));
}

}  // namespace echelon::checkpoint
