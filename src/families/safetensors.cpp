#include "families/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "checkpoint/format/safetensors_header.h"

namespace echelon::families {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

SafetensorsLayout lay_out_safetensors(const std::vector<SafetensorsEntry>& entries) {
  SafetensorsLayout layout;
  layout.order.resize(entries.size());
  std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
  std::ranges::sort(layout.order, [&](std::size_t a, std::size_t b) {
    const std::size_t size_a = size_of(entries[a].dtype);
    const std::size_t size_b = size_of(entries[b].dtype);
    return size_a != size_b ? size_a > size_b : entries[a].name < entries[b].name;
  });
  // Some loaders require the framework's name in __metadata__; the others ignore it.
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  layout.offsets.resize(entries.size());
  std::uint64_t at = 0;
  for (const std::size_t i : layout.order) {
    const SafetensorsEntry& entry = entries[i];
    header[entry.name] = {{"dtype", checkpoint::safetensors_name(entry.dtype)},
                          {"shape", entry.shape},
                          {"data_offsets", {at, at + entry.bytes}}};
    layout.offsets[i] = at;
    at += entry.bytes;
  }
  std::string json = header.dump();
  const std::uint64_t padded = (sizeof(std::uint64_t) + json.size() + kPage - 1) / kPage * kPage;
  json.resize(padded - sizeof(std::uint64_t), ' ');
  if (json.size() > checkpoint::kMaxSafetensorsHeader) {
    throw Error(Code::kCheckpoint, "safetensors allows a header of ", checkpoint::kMaxSafetensorsHeader,
                " bytes, these tensors need ", json.size(), ": use --to hdf5");
  }
  const std::uint64_t length = json.size();
  layout.head.resize(sizeof(length));
  std::memcpy(layout.head.data(), &length, sizeof(length));
  layout.head += json;
  for (std::uint64_t& offset : layout.offsets) offset += padded;
  layout.file_bytes = padded + at;
  return layout;
}

}  // namespace echelon::families
