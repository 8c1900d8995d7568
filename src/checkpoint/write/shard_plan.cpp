#include "checkpoint/write/shard_plan.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

void check_slice(const Slice& slice) {
  const std::uint64_t elements = element_count(slice.tensor);
  if (slice.begin > slice.end || slice.end > elements) {
    throw Error(Code::kCheckpoint, "tensor '", slice.tensor.name, "' of ", elements,
                " elements has no elements ", slice.begin, " to ", slice.end);
  }
}

std::vector<std::size_t> file_order(std::span<const Slice> slices) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].begin != slices[i].end) order.push_back(i);
  }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      // Largest elements first, as safetensors files do; then by name, so that equal state gives equal
      // files.
      return std::tuple(-static_cast<int>(size_of(slices[i].tensor.dtype)),
                        std::string_view(slices[i].tensor.name));
    };
    return key(a) < key(b);
  });
  return order;
}

H5Dataset dataset_of(const ShardEntry& entry) {
  const auto signed_number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  return {.path = entry.tensor.name,
          .dtype = entry.tensor.dtype,
          .shape = {entry.end - entry.begin},
          .attributes = {{"global_shape", entry.tensor.shape, false},
                         {"flat_begin", {signed_number(entry.begin)}, true},
                         {"flat_end", {signed_number(entry.end)}, true}}};
}

// CRC of everything outside tensors, in file order: the metadata, then the zero bytes before each tensor.
std::uint32_t crc_between(const ShardPlan& plan) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  std::uint32_t crc = crc32c(plan.metadata);
  std::uint64_t at = plan.index.index_bytes + plan.metadata.size();
  for (const ShardEntry& entry : plan.index.entries) {
    crc = crc32c(std::span(kZeros).first(entry.file_offset - at), crc);
    at = entry.file_offset + entry.bytes;
  }
  return crc;
}

}  // namespace

ShardPlan plan_shard(int rank, int ranks, const std::string& save_id, std::span<const Slice> slices) {
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    throw Error(Code::kCheckpoint, "no shard for rank ", rank, " of ", ranks, " (at most ", kMaxRanks, ')');
  }
  if (!is_save_id(save_id)) throw Error(Code::kCheckpoint, "save id '", save_id, "' is not eight hex digits");
  ShardPlan plan{.index = {.rank = rank, .ranks = ranks, .save_id = save_id}};
  std::vector<TensorInfo> tensors;
  for (const Slice& slice : slices) {
    check_slice(slice);
    tensors.push_back(slice.tensor);
  }
  check_tensors(tensors);
  plan.sources = file_order(slices);
  std::vector<H5Dataset> datasets;
  std::uint64_t blocks = 0;
  for (const std::size_t source : plan.sources) {
    const Slice& slice = slices[source];
    plan.index.entries.push_back({.tensor = slice.tensor,
                                  .begin = slice.begin,
                                  .end = slice.end,
                                  .bytes = (slice.end - slice.begin) * size_of(slice.tensor.dtype),
                                  .first_block = blocks});
    blocks += block_count(plan.index.entries.back().bytes, kBlockBytes);
    datasets.push_back(dataset_of(plan.index.entries.back()));
  }
  ShardIndex& index = plan.index;
  index.block_crcs.resize(blocks);
  index.index_bytes = index_size(index.entries, index.block_bytes);
  if (index.index_bytes > kMaxIndexBytes) {
    throw Error(Code::kCheckpoint, "rank ", rank, " holds too much for one shard: its index needs ",
                human_bytes(index.index_bytes), ", at most ", human_bytes(kMaxIndexBytes));
  }
  const std::vector<H5Attribute> root{{"rank", {rank}, true}, {"ranks", {ranks}, true}};
  H5Layout layout = lay_out_h5(datasets, index.index_bytes, root);
  for (std::size_t i = 0; i < index.entries.size(); ++i) index.entries[i].file_offset = layout.offsets[i];
  index.file_bytes = layout.file_bytes;
  plan.metadata = std::move(layout.metadata);
  index.layout_crc = crc_between(plan);
  return plan;
}

ShardPlan replan_shard(ShardPlan earlier, const std::string& save_id) {
  earlier.index.save_id = save_id;
  std::ranges::fill(earlier.index.block_crcs, 0);
  for (ShardEntry& entry : earlier.index.entries) entry.crc = entry.fingerprint = 0;
  return earlier;
}

}  // namespace echelon::checkpoint
