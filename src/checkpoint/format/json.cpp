#include "checkpoint/format/json.h"

#include <charconv>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {

Json parse_json(std::string_view source, const std::string& what) {
  return parse_foreign_json(source, what, Code::kCheckpoint, {.depth = kMaxJsonDepth});
}

std::string canonical_text(const Json& value) {
  return value.dump(2) + "\n";
}

const Json& member(const Json& object, const char* key, const std::string& what) {
  if (!object.is_object()) throw Error(Code::kCheckpoint, what, ": expected an object with '", key, "'");
  const auto found = object.find(key);
  if (found == object.end()) throw Error(Code::kCheckpoint, what, ": '", key, "' is missing");
  return *found;
}

std::uint64_t number(const Json& object, const char* key, std::uint64_t max, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be a whole number from 0 to ", max);
  }
  return value.get<std::uint64_t>();
}

std::string text(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_string()) throw Error(Code::kCheckpoint, what, ": '", key, "' must be text");
  return value.get<std::string>();
}

const Json& list_of(const Json& object, const char* key, std::size_t max, const std::string& what) {
  const Json& list = member(object, key, what);
  if (!list.is_array() || list.size() > max) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be a list of at most ", max);
  }
  return list;
}

std::string save_id_of(const Json& object, const char* key, const std::string& what) {
  std::string id = text(object, key, what);
  if (!is_save_id(id))
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be eight lower-case hex digits");
  return id;
}

namespace {

/// All the digits of a Number, spelled as hex_digits() does.
template <class Number>
Number parse_hex(const Json& object, const char* key, const std::string& what) {
  const std::string digits = text(object, key, what);
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc{} || end != digits.data() + digits.size() ||
      hex_digits(value, 2 * sizeof(value)) != digits) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be ", sizeof(Number) == 4 ? "eight" : "sixteen",
                " lower-case hex digits");
  }
  return value;
}

}  // namespace

std::uint32_t checksum(const Json& object, const char* key, const std::string& what) {
  return parse_hex<std::uint32_t>(object, key, what);
}
std::string checksum_text(std::uint32_t crc) {
  return hex_digits(crc, 2 * sizeof(crc));
}

std::uint64_t fingerprint(const Json& object, const char* key, const std::string& what) {
  return parse_hex<std::uint64_t>(object, key, what);
}
std::string fingerprint_text(std::uint64_t crc) {
  return hex_digits(crc, 2 * sizeof(crc));
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

}  // namespace echelon::checkpoint
