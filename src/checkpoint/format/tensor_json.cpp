#include "checkpoint/format/tensor_json.h"

#include "base/error.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {

const Json& list_of(const Json& object, const char* key, std::size_t max, const std::string& what) {
  const Json& list = member(object, key, what);
  if (!list.is_array() || list.size() > max) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be a list of at most ", max);
  }
  return list;
}

Json tensor_json(const TensorInfo& tensor) {
  return {{"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}};
}

TensorInfo parse_tensor(const Json& json, const std::string& what) {
  TensorInfo tensor{.name = text(json, "name", what)};
  if (const std::string problem = tensor_name_problem(tensor.name); !problem.empty()) {
    throw Error(Code::kCheckpoint, what, ": a tensor name ", problem);
  }
  const auto dtype = dtype_named(text(json, "dtype", what));
  if (!dtype)
    throw Error(Code::kCheckpoint, what, ": tensor '", tensor.name, "' has an unknown element type");
  tensor.dtype = *dtype;
  for (const Json& dim : list_of(json, "shape", kMaxDims, what)) {
    if (!dim.is_number_unsigned() || dim.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxDim)) {
      throw Error(Code::kCheckpoint, what, ": tensor '", tensor.name, "' has a dimension out of bounds");
    }
    tensor.shape.push_back(dim.get<std::int64_t>());
  }
  return tensor;
}

std::string save_id_of(const Json& object, const char* key, const std::string& what) {
  std::string id = text(object, key, what);
  if (!is_save_id(id))
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be eight lower-case hex digits");
  return id;
}

}  // namespace echelon::checkpoint
