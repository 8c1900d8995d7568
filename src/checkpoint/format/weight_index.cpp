#include "checkpoint/format/weight_index.h"

#include <cmath>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kMaxTotal = std::uint64_t{1} << 60;

/// Some tools write the sum as a float: 13476835328.0.
std::uint64_t total_of(const Json& metadata, const std::string& what) {
  const Json& size = metadata["total_size"];
  const double value = size.is_number_float() ? size.get<double>() : -1;
  if (value >= 0 && value <= static_cast<double>(kMaxTotal) && value == std::floor(value))
    return static_cast<std::uint64_t>(value);
  return number(metadata, "total_size", kMaxTotal, what);
}

}  // namespace

WeightIndex parse_weight_index(std::string_view source, const std::string& what) {
  if (source.size() > kMaxWeightIndexBytes) throw Error(Code::kCheckpoint, what, ": larger than 64 MiB");
  const Json root = parse_json(source, what);
  WeightIndex index;
  if (root.is_object() && root.contains("metadata") && !root["metadata"].is_null()) {
    const Json& metadata = root["metadata"];
    if (!metadata.is_object()) throw Error(Code::kCheckpoint, what, ": 'metadata' must be an object");
    if (metadata.contains("total_size")) index.total_size = total_of(metadata, what);
  }
  const Json& map = member(root, "weight_map", what);
  if (!map.is_object() || map.empty())
    throw Error(Code::kCheckpoint, what, ": 'weight_map' must be an object that names tensors");
  for (const auto& [name, file] : map.items()) {
    if (const std::string problem = tensor_name_problem(name); !problem.empty())
      throw Error(Code::kCheckpoint, what, ": tensor name '", printable(name), "' ", problem);
    if (!file.is_string())
      throw Error(Code::kCheckpoint, what, ": 'weight_map' must name a file for tensor '", name, "'");
    const auto& text = file.get_ref<const std::string&>();
    // The rule for attachments excludes '/' and a leading '.', so the name cannot lead out of the folder.
    std::string problem = attachment_name_problem(text);
    if (problem.empty() && !text.ends_with(".safetensors")) problem = "does not end in '.safetensors'";
    if (!problem.empty()) {
      throw Error(Code::kCheckpoint, what, ": the file '", printable(text), "' of tensor '", name, "' ",
                  problem, "; only plain names of files beside the index are followed");
    }
    index.files.emplace_hint(index.files.end(), name, text);
  }
  return index;
}

}  // namespace echelon::checkpoint
