#pragma once
#include <cstddef>
#include <string>

#include "checkpoint/format/json.h"
#include "checkpoint/format/tensor.h"

/// How JSON files list tensors. Not for public headers.
namespace echelon::checkpoint {

inline constexpr std::size_t kMaxTensorsListed = 1'000'000;

/// Member `key` of `object`, a list of at most `max`. Throws Error(kCheckpoint) naming `what`; so does what
/// follows.
[[nodiscard]] const Json& list_of(const Json& object, const char* key, std::size_t max,
                                  const std::string& what);

/// {"dtype", "name", "shape"}
[[nodiscard]] Json tensor_json(const TensorInfo& tensor);
/// Checks name, type and each dimension, but not the product of the dimensions (check_tensors()).
[[nodiscard]] TensorInfo parse_tensor(const Json& json, const std::string& what);

/// Member `key` of `object`: eight lower-case hex digits.
[[nodiscard]] std::string save_id_of(const Json& object, const char* key, const std::string& what);

}  // namespace echelon::checkpoint
