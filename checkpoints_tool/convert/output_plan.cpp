#include "checkpoints_tool/convert/output_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/hdf5/h5_layout.h"
#include "families/convert.h"
#include "families/safetensors.h"

namespace echelon::tool {
namespace {

/// Assigns each tensor its position and drops empty ones.
void place(OutputFile& file, std::vector<OutputTensor> tensors, const std::vector<std::uint64_t>& offsets) {
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].offset = offsets[i];
  std::erase_if(tensors, [](const OutputTensor& tensor) { return tensor.bytes == 0; });
  std::ranges::sort(tensors, {}, &OutputTensor::offset);
  file.tensors = std::move(tensors);
}

void set_sizes(std::vector<OutputTensor>& tensors) {
  for (OutputTensor& tensor : tensors) {
    tensor.bytes = checkpoint::element_count(tensor.source) * size_of(tensor.dtype);
  }
}

OutputFile plan_safetensors_file(std::vector<OutputTensor> tensors, std::string name) {
  const auto entry = [](const OutputTensor& tensor) {
    return families::SafetensorsEntry{tensor.name, tensor.dtype, tensor.shape(), tensor.bytes};
  };
  families::SafetensorsLayout layout = families::lay_out_safetensors(mapped(tensors, entry));
  OutputFile file{.name = std::move(name), .bytes = layout.file_bytes};
  const auto head = std::as_bytes(std::span(layout.head));
  file.head.assign(head.begin(), head.end());
  place(file, std::move(tensors), layout.offsets);
  return file;
}

// The grouping of huggingface_hub's split_state_dict_into_shards_factory: a tensor above the limit is a
// group by itself. It is placed before the group being filled, which continues after it.
std::vector<std::vector<OutputTensor>> split(std::vector<OutputTensor> tensors, std::uint64_t limit) {
  std::vector<std::vector<OutputTensor>> groups;
  std::vector<OutputTensor> current;
  std::uint64_t current_bytes = 0;
  for (OutputTensor& tensor : tensors) {
    if (tensor.bytes > limit) {
      groups.emplace_back().push_back(std::move(tensor));
      continue;
    }
    if (current_bytes + tensor.bytes > limit) {
      groups.push_back(std::exchange(current, {}));
      current_bytes = 0;
    }
    current_bytes += tensor.bytes;
    current.push_back(std::move(tensor));
  }
  if (!current.empty()) groups.push_back(std::move(current));
  return groups;
}

}  // namespace

std::vector<std::int64_t> OutputTensor::shape() const {
  if (!transposed) return source.shape;
  return {source.shape.at(1), source.shape.at(0)};
}

std::vector<Window> windows_of(const OutputPlan& plan) {
  std::vector<Window> windows;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    for (std::uint64_t at = 0; at < plan.files[i].bytes; at += kWindowBytes) {
      windows.push_back({i, at, std::min(at + kWindowBytes, plan.files[i].bytes)});
    }
  }
  return windows;
}

std::vector<Part> parts_of(const OutputFile& file, const Window& window) {
  std::vector<Part> parts;
  auto tensor = std::ranges::partition_point(
      file.tensors, [&](const OutputTensor& t) { return t.offset + t.bytes <= window.begin; });
  for (; tensor != file.tensors.end() && tensor->offset < window.end; ++tensor) {
    const std::uint64_t begin = std::max(window.begin, tensor->offset) - tensor->offset;
    const std::uint64_t end = std::min(window.end - tensor->offset, tensor->bytes);
    const std::uint64_t size = size_of(tensor->dtype);
    parts.push_back({&*tensor, begin / size, end / size});
  }
  return parts;
}

std::vector<Tile> tiles_of(const OutputPlan& plan, std::uint64_t most) {
  constexpr std::uint64_t kLeastRows = 64;
  std::vector<Tile> tiles;
  for (std::size_t file = 0; file < plan.files.size(); ++file) {
    for (const OutputTensor& tensor : plan.files[file].tensors) {
      if (!tensor.transposed) continue;
      const auto all_rows = static_cast<std::uint64_t>(tensor.source.shape.at(0));
      const auto all_columns = static_cast<std::uint64_t>(tensor.source.shape.at(1));
      const std::uint64_t room = most / size_of(tensor.dtype);
      const std::uint64_t rows = std::min(all_rows, std::max(kLeastRows, room / all_columns));
      const std::uint64_t columns = std::min(all_columns, room / rows);
      for (std::uint64_t row = 0; row < all_rows; row += rows) {
        for (std::uint64_t column = 0; column < all_columns; column += columns) {
          tiles.push_back({file, &tensor, row, std::min(rows, all_rows - row), column,
                           std::min(columns, all_columns - column)});
        }
      }
    }
  }
  return tiles;
}

std::uint64_t planned_bytes(const OutputPlan& plan) {
  std::uint64_t sum = 0;
  for (const OutputFile& file : plan.files) sum += file.bytes;
  return sum;
}

OutputTensor whole_tensor(const checkpoint::TensorInfo& source, families::OutputType type) {
  const bool floating = families::is_floating(source.dtype);
  return {.source = source,
          .name = source.name,
          .dtype = floating ? families::converted(source.dtype, type) : source.dtype};
}

OutputFile plan_hdf5(std::vector<OutputTensor> tensors, std::int64_t step) {
  set_sizes(tensors);
  std::vector<checkpoint::H5Dataset> datasets;
  for (const OutputTensor& tensor : tensors) {
    const auto shape = tensor.shape();
    datasets.push_back({.path = tensor.name, .dtype = tensor.dtype, .shape = {shape.begin(), shape.end()}});
  }
  const std::vector<checkpoint::H5Attribute> root{{"step", {step}, true}};
  checkpoint::H5Layout layout = checkpoint::lay_out_h5(datasets, 0, root);
  OutputFile file{.head = std::move(layout.metadata), .bytes = layout.file_bytes};
  place(file, std::move(tensors), layout.offsets);
  return file;
}

SafetensorsPlan plan_safetensors(std::vector<OutputTensor> tensors, const std::string& stem,
                                 std::uint64_t max_shard_bytes) {
  set_sizes(tensors);
  std::uint64_t total = 0;
  for (const OutputTensor& tensor : tensors) total += tensor.bytes;
  auto groups = split(std::move(tensors), max_shard_bytes);
  SafetensorsPlan plan;
  if (groups.size() <= 1) {
    plan.files.push_back(plan_safetensors_file(
        groups.empty() ? std::vector<OutputTensor>{} : std::move(groups.front()), stem + ".safetensors"));
    return plan;
  }
  nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}},
                                  {"weight_map", nlohmann::ordered_json::object()}};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string name =
        str(stem, '-', checkpoint::with_zeros(static_cast<std::int64_t>(i + 1), 5), "-of-",
            checkpoint::with_zeros(static_cast<std::int64_t>(groups.size()), 5), ".safetensors");
    for (const OutputTensor& tensor : groups[i]) index["weight_map"][tensor.name] = name;
    plan.files.push_back(plan_safetensors_file(std::move(groups[i]), name));
  }
  plan.index_name = stem + ".safetensors.index.json";
  plan.index_text = index.dump(2);
  return plan;
}

}  // namespace echelon::tool
