#include "checkpoint/format/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/bytes.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxMetadata = 100'000;

struct DTypeName {
  DType type;
  std::string_view name;
};
constexpr std::array<DTypeName, 7> kNames{{{DType::kF32, "F32"},
                                           {DType::kBF16, "BF16"},
                                           {DType::kF16, "F16"},
                                           {DType::kF64, "F64"},
                                           {DType::kI32, "I32"},
                                           {DType::kI64, "I64"},
                                           {DType::kU8, "U8"}}};

struct OtherType {
  std::string_view name;
  DType same_size;
};
constexpr std::array kOtherTypes{OtherType{"BOOL", DType::kU8},    OtherType{"I8", DType::kU8},
                                 OtherType{"F8_E5M2", DType::kU8}, OtherType{"F8_E4M3", DType::kU8},
                                 OtherType{"I16", DType::kF16},    OtherType{"U16", DType::kF16},
                                 OtherType{"U32", DType::kI32},    OtherType{"U64", DType::kI64}};

/// One tensor while its fields are parsed.
struct Draft {
  SafetensorsTensor tensor;
  std::uint64_t begin = 0;  ///< data_offsets, counted from the end of the header
  std::uint64_t end = 0;
  std::size_t numbers = 0;  ///< of data_offsets so far
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

/// A SAX handler: it builds no tree of JSON values, so a hostile header of 100 MB takes no more memory than
/// the tensors it describes.
class Handler : public nlohmann::json_sax<Json> {
 public:
  [[nodiscard]] std::vector<Draft> take() { return std::move(drafts_); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override {
    // The reference library writes null for "no metadata".
    return at_ == At::kMetadataValue ? leave(At::kRoot) : other("null");
  }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a negative number"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::kShape) return dimension(value);
    if (at_ == At::kOffsets) return offset(value);
    return other("a number");
  }
  bool number_float(number_float_t, const string_t&) override { return other("a number that is not whole"); }
  bool string(string_t& value) override {
    if (at_ == At::kMetadata) return true;
    if (at_ != At::kDtype) return other("text");
    const auto dtype = safetensors_dtype(value);
    const auto* other = std::ranges::find(kOtherTypes, value, &OtherType::name);
    if (!dtype && other == kOtherTypes.end())
      return fail(
          str(named(), " has the element type '", printable(value), "', which a checkpoint cannot hold"));
    draft().tensor.info.dtype = dtype ? *dtype : other->same_size;
    if (!dtype) draft().tensor.other_type = other->name;
    return leave(At::kTensor);
  }
  bool binary(binary_t&) override { return other("a binary value"); }
  bool start_object(std::size_t) override {
    if (at_ == At::kStart) return leave(At::kRoot);
    if (at_ == At::kMetadataValue) return leave(At::kMetadata);
    if (at_ == At::kTensorValue) return leave(At::kTensor);
    return skip("an object");
  }
  bool end_object() override {
    if (skipped_ > 0) return skip_end();
    if (at_ == At::kTensor) return finish_tensor();
    return leave(At::kRoot);
  }
  bool start_array(std::size_t) override {
    if (at_ == At::kShapeValue) return leave(At::kShape);
    if (at_ == At::kOffsetsValue) return leave(At::kOffsets);
    return skip("a list");
  }
  bool end_array() override {
    if (skipped_ > 0) return skip_end();
    if (at_ == At::kOffsets && draft().numbers != 2)
      return fail(named() + ": 'data_offsets' must be two numbers");
    return leave(At::kTensor);
  }
  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    if (at_ == At::kRoot) return name == "__metadata__" ? metadata() : new_tensor(name);
    if (at_ == At::kMetadata) return metadata_key(name);
    return field(name);
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    const bool range = dynamic_cast<const Json::out_of_range*>(&e) != nullptr;
    return fail(
        str("its header is not valid JSON", range ? " (a number out of range)" : "", " at byte ", position));
  }

 private:
  /// What may come next.
  enum class At {
    kStart,
    kRoot,
    kMetadataValue,
    kMetadata,
    kTensorValue,
    kTensor,
    kDtype,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kUnknown,  ///< the value of an unknown field
  };

  bool leave(At next) {
    at_ = next;
    return true;
  }
  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  Draft& draft() { return drafts_.back(); }
  [[nodiscard]] std::string named() const { return "tensor '" + drafts_.back().tensor.info.name + "'"; }

  /// A value of the wrong kind: an error, except within an unknown field.
  bool other(const char* found) {
    if (skipped_ > 0) return true;
    switch (at_) {
      case At::kUnknown:
        return leave(At::kTensor);
      case At::kStart:
        return fail("its header is not a JSON object");
      case At::kMetadataValue:
      case At::kMetadata:
        return fail(str("'__metadata__' must hold text only; found ", found));
      case At::kTensorValue:
        return fail(str(named(), " must be an object, it is ", found));
      case At::kDtype:
        return fail(str(named(), ": 'dtype' must be text, it is ", found));
      default:
        return fail(
            str(named(), ": 'shape' and 'data_offsets' must be lists of whole numbers; found ", found));
    }
  }
  bool skip(const char* found) {
    if (skipped_ == 0 && at_ != At::kUnknown) return other(found);
    if (++skipped_ + 2 > kMaxJsonDepth)
      return fail(str("its header is nested deeper than ", kMaxJsonDepth, " levels"));
    return true;
  }
  bool skip_end() {
    if (--skipped_ == 0) at_ = At::kTensor;
    return true;
  }

  bool metadata() {
    if (std::exchange(has_metadata_, true)) return fail("'__metadata__' appears twice");
    return leave(At::kMetadataValue);
  }
  bool metadata_key(const std::string& name) {
    if (metadata_keys_.size() >= kMaxMetadata)
      return fail(str("'__metadata__' has more than ", kMaxMetadata, " keys"));
    if (!metadata_keys_.insert(name).second)
      return fail(str("'__metadata__' has the key '", printable(name), "' twice"));
    return true;
  }
  bool new_tensor(std::string& name) {
    if (drafts_.size() >= kMaxTensors) return fail(str("more than ", kMaxTensors, " tensors"));
    if (const std::string problem = tensor_name_problem(name); !problem.empty())
      return fail(str("tensor name '", printable(name), "' ", problem));
    drafts_.emplace_back();
    draft().tensor.info.name = std::move(name);
    return leave(At::kTensorValue);
  }
  bool field(const std::string& name) {
    const auto once = [&](bool& seen, At next) {
      if (std::exchange(seen, true)) return fail(str(named(), " has '", name, "' twice"));
      return leave(next);
    };
    if (name == "dtype") return once(draft().has_dtype, At::kDtype);
    if (name == "shape") return once(draft().has_shape, At::kShapeValue);
    if (name == "data_offsets") return once(draft().has_offsets, At::kOffsetsValue);
    return leave(At::kUnknown);
  }
  bool dimension(std::uint64_t value) {
    std::vector<std::int64_t>& shape = draft().tensor.info.shape;
    if (shape.size() >= kMaxDims || value > static_cast<std::uint64_t>(kMaxDim))
      return fail(named() + " has more than 8 dimensions, or one above 2^40");
    shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool offset(std::uint64_t value) {
    Draft& now = draft();
    (now.numbers == 0 ? now.begin : now.end) = value;
    if (++now.numbers > 2) return fail(named() + ": 'data_offsets' must be two numbers");
    return true;
  }
  bool finish_tensor() {
    const Draft& now = draft();
    if (!now.has_dtype || !now.has_shape || !now.has_offsets)
      return fail(named() + " lacks one of 'dtype', 'shape' and 'data_offsets'");
    return leave(At::kRoot);
  }

  At at_ = At::kStart;
  int skipped_ = 0;  ///< containers open below an unknown field
  std::vector<Draft> drafts_;
  std::set<std::string> metadata_keys_;
  bool has_metadata_ = false;
  std::string problem_;
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
  const auto* found = std::ranges::find(kNames, type, &DTypeName::type);
  return found == kNames.end() ? "?" : found->name;
}

std::optional<DType> safetensors_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, &DTypeName::name);
  return found == kNames.end() ? std::nullopt : std::optional(found->type);
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
  // The JSON library takes a zero byte as the end of the text and would ignore what follows.
  if (json.find('\0') != std::string_view::npos) refuse(what, "its header holds a zero byte");
  Handler handler;
  if (!Json::sax_parse(json.begin(), json.end(), &handler))
    refuse(what, handler.problem().empty() ? "its header is not valid JSON" : handler.problem());
  std::vector<Draft> drafts = handler.take();
  check_names(drafts, what);
  return place(std::move(drafts), kSafetensorsLength + json.size(), file_bytes, what);
}

}  // namespace echelon::checkpoint
