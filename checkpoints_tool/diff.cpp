#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum/crc64.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/json.h"
#include "checkpoint/read/base_note.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoint/read/reader.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/element_difference.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;
using checkpoint::TensorInfo;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kStepBytes = std::uint64_t{4} << 20;

enum class Difference : std::uint8_t { kOnlyA, kOnlyB, kType, kShape, kContent };

std::string_view json_name(Difference difference) {
  constexpr std::array<std::string_view, 5> kNames{"only_a", "only_b", "dtype", "shape", "content"};
  return kNames.at(static_cast<std::size_t>(difference));
}

/// The difference of one tensor.
struct TensorDifference {
  std::string name;
  Difference kind = Difference::kContent;
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
  std::optional<ElementDifference> elements;  ///< with --data, of kContent
};

/// One of the two checkpoints, with what it leaves out because it lies in its base.
class Side {
 public:
  explicit Side(const Reader& reader) : reader_(reader), note_(checkpoint::base_note_of(reader)) {
    for (const TensorInfo& tensor : reader.tensors()) tensors_.push_back(&tensor);
    if (!note_) return;
    for (const auto& tensor : note_->tensors) tensors_.push_back(&tensor.info);
  }

  [[nodiscard]] const Reader& reader() const { return reader_; }
  [[nodiscard]] const std::vector<const TensorInfo*>& tensors() const { return tensors_; }
  [[nodiscard]] bool holds(const std::string& name) const { return reader_.find(name) != nullptr; }
  /// Reads the tensor where a checkpoint of format 1.0 holds it.
  [[nodiscard]] std::uint64_t fingerprint(const std::string& name) const {
    if (!holds(name)) return note_->find(name)->fingerprint;
    if (const auto known = reader_.fingerprint(name)) return *known;
    const std::uint64_t total = checkpoint::byte_count(*reader_.find(name));
    Progress progress("reading");
    std::uint64_t done = 0;
    std::uint64_t sum = 0;
    reader_.read_in_parts(name, [&](std::span<const std::byte> part) {
      sum = crc64(part, sum);
      progress.show(done += part.size(), total);
    });
    return sum;
  }

 private:
  const Reader& reader_;
  std::optional<checkpoint::BaseNote> note_;
  std::vector<const TensorInfo*> tensors_;
};

/// For equal type and shape: is the content the same according to the manifests? A tensor in a base has the
/// fingerprint alone.
bool same_content(const Side& a, const Side& b, const std::string& name) {
  if (!a.holds(name) || !b.holds(name)) return a.fingerprint(name) == b.fingerprint(name);
  const auto of_a = a.reader().fingerprint(name);
  const auto of_b = b.reader().fingerprint(name);
  return a.reader().checksum(name) == b.reader().checksum(name) && (!of_a || !of_b || *of_a == *of_b);
}

std::vector<TensorDifference> differences(const Side& a, const Side& b) {
  std::map<std::string, TensorDifference> all;
  for (const TensorInfo* tensor : a.tensors()) all[tensor->name].a = tensor;
  for (const TensorInfo* tensor : b.tensors()) all[tensor->name].b = tensor;
  std::vector<TensorDifference> found;
  for (auto& [name, tensor] : all) {
    tensor.name = name;
    if (tensor.b == nullptr) {
      tensor.kind = Difference::kOnlyA;
    } else if (tensor.a == nullptr) {
      tensor.kind = Difference::kOnlyB;
    } else if (tensor.a->dtype != tensor.b->dtype) {
      tensor.kind = Difference::kType;
    } else if (tensor.a->shape != tensor.b->shape) {
      tensor.kind = Difference::kShape;
    } else if (!same_content(a, b, name)) {
      tensor.kind = Difference::kContent;
    } else {
      continue;
    }
    found.push_back(tensor);
  }
  return found;
}

/// Reads both tensors of each difference of content, unless a checkpoint leaves one of them out.
void compare_data(const Side& side_a, const Side& side_b, std::vector<TensorDifference>& found) {
  const Reader& a = side_a.reader();
  const Reader& b = side_b.reader();
  const auto is_read = [&](const TensorDifference& tensor) {
    return tensor.kind == Difference::kContent && side_a.holds(tensor.name) && side_b.holds(tensor.name);
  };
  std::uint64_t total = 0;
  for (const TensorDifference& tensor : found) {
    if (is_read(tensor)) total += checkpoint::byte_count(*tensor.a);
  }
  Progress progress("comparing");
  std::vector<std::byte> of_a;
  std::vector<std::byte> of_b;
  std::uint64_t done = 0;
  for (TensorDifference& tensor : found) {
    if (!is_read(tensor)) continue;
    const std::uint64_t count = checkpoint::element_count(*tensor.a);
    const std::uint64_t size = size_of(tensor.a->dtype);
    tensor.elements.emplace();
    for (std::uint64_t at = 0; at < count; at += kStepBytes / size) {
      const std::uint64_t stop = std::min(count, at + kStepBytes / size);
      of_a.resize((stop - at) * size);
      of_b.resize(of_a.size());
      a.read(tensor.name, at, stop, of_a);
      b.read(tensor.name, at, stop, of_b);
      compare_elements(of_a, of_b, tensor.a->dtype, *tensor.elements);
      done += of_a.size();
      progress.show(done, total);
    }
  }
}

Json tensor_json(const Side& a, const Side& b, const TensorDifference& tensor) {
  Json json = {{"name", tensor.name}, {"difference", json_name(tensor.kind)}};
  const auto side = [&](const char* key, const Side& of, const TensorInfo* info) {
    if (info == nullptr) return;
    json[key] = {{"dtype", name_of(info->dtype)}, {"shape", info->shape}};
    if (of.holds(tensor.name))
      json[key]["crc32c"] = checkpoint::checksum_text(of.reader().checksum(tensor.name));
    else
      json[key]["crc64nvme"] = checkpoint::fingerprint_text(of.fingerprint(tensor.name));
  };
  side("a", a, tensor.a);
  side("b", b, tensor.b);
  if (tensor.elements) {
    json["elements"] = checkpoint::element_count(*tensor.a);
    json["elements_differing"] = tensor.elements->elements;
    json["elements_incomparable"] = tensor.elements->incomparable;
    json["max_abs"] = tensor.elements->max_abs;
    json["max_ulp"] = tensor.elements->max_ulp;
  }
  return json;
}

void print_json(const Side& a, const Side& b, const std::vector<TensorDifference>& found) {
  const auto side = [](const Reader& reader) {
    return Json{{"folder", reader.folder().string()}, {"step", reader.step()}};
  };
  Json json = {
      {"equal", found.empty()}, {"a", side(a.reader())}, {"b", side(b.reader())}, {"tensors", Json::array()}};
  for (const TensorDifference& tensor : found) json["tensors"].push_back(tensor_json(a, b, tensor));
  std::cout << json_text(json) << '\n';
}

std::string description(const TensorDifference& tensor) {
  if (tensor.kind == Difference::kOnlyA) return "only in A";
  if (tensor.kind == Difference::kOnlyB) return "only in B";
  if (tensor.kind == Difference::kType)
    return str("type ", name_of(tensor.a->dtype), " in A, ", name_of(tensor.b->dtype), " in B");
  if (tensor.kind == Difference::kShape) {
    return str("shape ", checkpoint::shape_text(tensor.a->shape), " in A, ",
               checkpoint::shape_text(tensor.b->shape), " in B");
  }
  if (!tensor.elements) return "content differs";
  const ElementDifference& by = *tensor.elements;
  std::string text = str(by.elements, " of ", checkpoint::element_count(*tensor.a),
                         " elements differ, max abs ", by.max_abs, ", max ulp ", by.max_ulp);
  if (by.incomparable != 0) text += str(", not counting ", by.incomparable, " with NaN or infinity");
  return text;
}

void print_text(const Side& a, const Side& b, const std::vector<TensorDifference>& found) {
  for (const TensorDifference& tensor : found)
    std::cout << tensor.name << ": " << description(tensor) << '\n';
  if (found.empty()) {
    std::cout << "equal: " << a.tensors().size() << " tensors\n";
  } else {
    std::cout << found.size() << " differ; A has " << a.tensors().size() << " tensors, B "
              << b.tensors().size() << '\n';
  }
}

}  // namespace

bool diff_checkpoints(const DiffOptions& options) {
  const checkpoint::LeasedReader leased_a(options.a);
  const checkpoint::LeasedReader leased_b(options.b);
  const Side a(leased_a.reader);
  const Side b(leased_b.reader);
  std::vector<TensorDifference> found = differences(a, b);
  if (options.data) compare_data(a, b, found);
  if (options.json)
    print_json(a, b, found);
  else
    print_text(a, b, found);
  return found.empty();
}

}  // namespace echelon::tool
