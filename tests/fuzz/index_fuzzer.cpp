// Any bytes as a shard's index. An odd first byte repairs the checksum, so that the checks behind it are
// reached. What is accepted must keep every promise that reading relies on.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/format/geometry.h"
#include "checkpoint/format/shard_index.h"
#include "fuzz/refused.h"

namespace {

using namespace echelon::checkpoint;  // NOLINT

void check_promises(const ShardIndex& index) {
  std::uint64_t free = index.index_bytes;
  for (const ShardEntry& entry : index.entries) {
    const std::uint64_t blocks = block_count(entry.bytes, index.block_bytes);
    if (entry.file_offset < free || entry.file_offset + entry.bytes > index.file_bytes) std::abort();
    if (entry.first_block + blocks > index.block_crcs.size()) std::abort();
    if (entry.begin >= entry.end || entry.end > element_count(entry.tensor)) std::abort();
    if (entry.bytes != (entry.end - entry.begin) * echelon::size_of(entry.tensor.dtype)) std::abort();
    free = entry.file_offset + entry.bytes;
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  ShardIndex index{.rank = 1, .ranks = 2, .save_id = "a1b2c3d4", .index_bytes = 4096, .file_bytes = 3 << 20};
  index.entries = {{{"model/w", echelon::DType::kF32, {600, 1000}}, 100, 400000, 8192, 1599600, 0, 5},
                   {{"model/b", echelon::DType::kBF16, {7, 3}}, 0, 21, 1609728, 42, 2, 6},
                   {{"optim/step", echelon::DType::kI64, {}}, 0, 1, 1613824, 8, 3, 7}};
  index.block_crcs = {1, 2, 3, 4};
  const std::vector<std::byte> block = encode_index(index);
  const std::string text(reinterpret_cast<const char*>(block.data()), block.size());
  return {"\1" + text, std::string(1, '\0') + text};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> block(begin + 1, begin + size);
  if ((data[0] & 1) != 0 && block.size() >= kIndexHeaderBytes) seal_index(block);
  used_or_refused(echelon::Code::kCheckpoint, [&] {
    const ShardIndex index = decode_index(block, "index");
    check_promises(index);
  });
  return 0;
}
