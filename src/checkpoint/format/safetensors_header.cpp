#include "checkpoint/format/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/bytes.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxMetadata = 100'000;

/// An element type of the format.
struct TypeName {
  std::string_view name;
  DType type;              ///< in a checkpoint
  bool size_only = false;  ///< which cannot hold it: of the same size
};
constexpr TypeName kTypes[] = {{"F32", DType::kF32},
                               {"BF16", DType::kBF16},
                               {"F16", DType::kF16},
                               {"F64", DType::kF64},
                               {"I32", DType::kI32},
                               {"I64", DType::kI64},
                               {"U8", DType::kU8},
                               {"BOOL", DType::kU8, true},
                               {"I8", DType::kU8, true},
                               {"F8_E5M2", DType::kU8, true},
                               {"F8_E4M3", DType::kU8, true},
                               {"I16", DType::kF16, true},
                               {"U16", DType::kF16, true},
                               {"U32", DType::kI32, true},
                               {"U64", DType::kI64, true}};

/// A tensor and its data_offsets, counted from the end of the header.
struct Draft {
  SafetensorsTensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::string shown(const Json& value) {
  return printable(value.dump(), 40);
}

/// Returns the numbers of a list, or nothing if `list` is anything but a list of whole numbers.
std::optional<std::vector<std::uint64_t>> whole_numbers(const Json& list) {
  const auto is_whole = [](const Json& number) { return number.is_number_unsigned(); };
  if (!list.is_array() || !std::ranges::all_of(list, is_whole)) return std::nullopt;
  return list.get<std::vector<std::uint64_t>>();
}

/// Returns the problem, to be put behind the tensor's name, or "".
std::string read_tensor(const Json& value, Draft& draft) {
  if (!value.is_object()) return " must be an object, it is " + shown(value);
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(field)) return " lacks one of 'dtype', 'shape' and 'data_offsets'";
  }
  if (!value["dtype"].is_string()) return ": 'dtype' must be text, it is " + shown(value["dtype"]);
  TensorInfo& info = draft.tensor.info;
  const auto type = value["dtype"].get<std::string>();
  const auto* known = std::ranges::find(kTypes, type, &TypeName::name);
  if (known == std::end(kTypes))
    return str(" has the element type '", printable(type), "', which a checkpoint cannot hold");
  info.dtype = known->type;
  if (known->size_only) draft.tensor.other_type = known->name;
  const auto shape = whole_numbers(value["shape"]);
  const auto offsets = whole_numbers(value["data_offsets"]);
  if (!shape || !offsets)
    return str(": 'shape' and 'data_offsets' must be lists of whole numbers; found ",
               shown(value[shape ? "data_offsets" : "shape"]));
  const auto is_large = [](std::uint64_t size) { return size > static_cast<std::uint64_t>(kMaxDim); };
  if (shape->size() > kMaxDims || std::ranges::any_of(*shape, is_large))
    return " has more than 8 dimensions, or one above 2^40";
  if (offsets->size() != 2) return ": 'data_offsets' must be two numbers";
  info.shape.assign(shape->begin(), shape->end());
  draft.begin = offsets->front();
  draft.end = offsets->back();
  return "";
}

/// Takes the members of a header one at a time, so that a hostile header of 100 MB takes no more memory than
/// the tensors it describes.
struct Header {
  std::vector<Draft> drafts;
  bool has_metadata = false;

  /// Returns the problem, or "".
  std::string take(const std::string& name, const Json& value) {
    if (name == "__metadata__") return take_metadata(value);
    if (drafts.size() >= kMaxTensors) return str("more than ", kMaxTensors, " tensors");
    if (const std::string problem = tensor_name_problem(name); !problem.empty())
      return str("tensor name '", printable(name), "' ", problem);
    drafts.push_back({.tensor = {.info = {.name = name}}});
    const std::string problem = read_tensor(value, drafts.back());
    return problem.empty() ? "" : str("tensor '", name, '\'', problem);
  }
  std::string take_metadata(const Json& value) {
    if (std::exchange(has_metadata, true)) return "'__metadata__' appears twice";
    if (value.is_null()) return "";  // the reference library writes it for "no metadata"
    const auto is_text = [](const Json& one) { return one.is_string(); };
    if (!value.is_object() || !std::ranges::all_of(value, is_text))
      return "'__metadata__' must hold text only; found " + shown(value);
    return value.size() > kMaxMetadata ? str("'__metadata__' has more than ", kMaxMetadata, " keys") : "";
  }
};

[[noreturn]] void refuse(const std::string& what, const std::string& problem) {
  throw Error(Code::kCheckpoint, what, ": ", problem);
}

void check_names(const std::vector<Draft>& drafts, const std::string& what) {
  std::vector<std::string_view> names;
  names.reserve(drafts.size());
  for (const Draft& draft : drafts) names.push_back(draft.tensor.info.name);
  std::ranges::sort(names);
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse(what, str("tensor '", *twice, "' appears twice"));
}

/// The ranges, in order, must tile the data without hole or overlap, as the format's reference requires (see
/// Metadata::validate in huggingface/safetensors, tensor.rs). Otherwise a file could hide bytes or alias
/// tensors.
std::vector<SafetensorsTensor> place(std::vector<Draft> drafts, std::uint64_t data_begin,
                                     std::uint64_t file_bytes, const std::string& what) {
  std::ranges::sort(drafts, {}, [](const Draft& a) { return std::pair(a.begin, a.end); });
  const std::uint64_t data_bytes = file_bytes - data_begin;
  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(drafts.size());
  std::uint64_t at = 0;
  for (Draft& draft : drafts) {
    SafetensorsTensor& tensor = draft.tensor;
    const auto range = [&] {
      return str("tensor '", tensor.info.name, "', data bytes ", draft.begin, " to ", draft.end);
    };
    const auto count = count_elements(tensor.info.shape, tensor.info.dtype);
    if (!count)
      refuse(what, str("tensor '", tensor.info.name, "': shape ", shape_text(tensor.info.shape),
                       " is out of bounds (1 PiB)"));
    tensor.bytes = *count * size_of(tensor.info.dtype);
    if (draft.end < draft.begin) refuse(what, range() + ": they end before they begin");
    if (draft.begin < at) refuse(what, range() + ": they overlap another tensor");
    if (draft.begin > at) refuse(what, range() + ": there is a hole before them");
    if (draft.end - draft.begin != tensor.bytes)
      refuse(what, str(range(), ": ", name_of(tensor.info.dtype), ' ', shape_text(tensor.info.shape),
                       " takes ", tensor.bytes, " bytes"));
    if (draft.end > data_bytes)
      refuse(what, str(range(), ": the file has only ", data_bytes, ": it was cut short"));
    tensor.offset = data_begin + draft.begin;
    at = draft.end;
    tensors.push_back(std::move(tensor));
  }
  if (at != data_bytes) refuse(what, str(data_bytes - at, " bytes at its end belong to no tensor"));
  return tensors;
}

}  // namespace

std::string_view safetensors_name(DType type) {
  const auto* found = std::ranges::find(kTypes, type, &TypeName::type);
  return found == std::end(kTypes) ? "?" : found->name;
}

std::uint64_t safetensors_header_bytes(std::span<const std::byte> length, std::uint64_t file_bytes,
                                       const std::string& what) {
  if (file_bytes < kSafetensorsLength || length.size() < kSafetensorsLength)
    refuse(what, str("has ", file_bytes, " bytes, too few for a safetensors file"));
  const auto bytes = get<std::uint64_t>(length, 0);
  if (bytes > kMaxSafetensorsHeader)
    refuse(what, str("states a header of ", bytes, " bytes; safetensors allows ", kMaxSafetensorsHeader));
  if (bytes > file_bytes - kSafetensorsLength)
    refuse(what, str("states a header of ", bytes, " bytes, but the file has only ", file_bytes));
  return bytes;
}

std::vector<SafetensorsTensor> parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                                        const std::string& what) {
  if (!json.starts_with('{')) refuse(what, "its header does not begin with '{'");
  Header header;
  const std::string problem =
      read_members(json, [&](const std::string& name, const Json& value) { return header.take(name, value); },
                   {.bytes = kMaxSafetensorsHeader, .depth = kMaxJsonDepth});
  if (!problem.empty()) refuse(what, "its header: " + problem);
  std::vector<Draft> drafts = std::move(header.drafts);
  check_names(drafts, what);
  return place(std::move(drafts), kSafetensorsLength + json.size(), file_bytes, what);
}

std::vector<SafetensorsTensor> load_safetensors_header(const fs::Fd& file, std::uint64_t file_bytes,
                                                       const fs::Path& path) {
  const std::string what = str('\'', path.string(), '\'');
  std::array<std::byte, kSafetensorsLength> length{};
  if (file_bytes >= length.size()) fs::read_at(file, 0, length, Code::kCheckpoint, path);
  std::string json(safetensors_header_bytes(length, file_bytes, what), '\0');
  fs::read_at(file, length.size(), std::as_writable_bytes(std::span(json)), Code::kCheckpoint, path);
  return parse_safetensors_header(json, file_bytes, what);
}

}  // namespace echelon::checkpoint
