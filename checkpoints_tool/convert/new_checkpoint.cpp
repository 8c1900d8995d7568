#include "checkpoints_tool/convert/new_checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/write/shard_write.h"
#include "checkpoints_tool/convert/resumable_output.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

/// Elements [begin, end) of tensor number `tensor`.
struct Share {
  std::size_t tensor = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Divides tensors over `ranks` shards: concatenated and cut into ranges of nearly equal size, so that at
/// most ranks - 1 tensors are cut. Returns the shares by rank; a rank may get none.
std::vector<std::vector<Share>> split_evenly(std::span<const checkpoint::TensorInfo> tensors, int ranks) {
  std::uint64_t total = 0;
  for (const auto& tensor : tensors) {
    if (__builtin_add_overflow(total, checkpoint::byte_count(tensor), &total))
      throw Error(Code::kCheckpoint, "the tensors are too large");
  }
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t stretch = total / count + (total % count != 0 ? 1 : 0);
  std::vector<std::vector<Share>> shares(count);
  std::uint64_t at = 0;  // byte in the concatenation of all tensors
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = size_of(tensors[i].dtype);
    const std::uint64_t elements = checkpoint::element_count(tensors[i]);
    for (std::uint64_t begin = 0; begin < elements;) {
      const std::uint64_t rank = at / stretch;
      // An element belongs to the rank its first byte belongs to.
      const std::uint64_t room = ((rank + 1) * stretch - at + size - 1) / size;
      const std::uint64_t end = begin + std::min(room, elements - begin);
      shares[rank].push_back({i, begin, end});
      at += (end - begin) * size;
      begin = end;
    }
  }
  return shares;
}

}  // namespace

std::filesystem::path write_new_checkpoint(const std::filesystem::path& output,
                                           const std::filesystem::path& source, checkpoint::CommitInfo info,
                                           const std::string& doing, const FillSlice& fill,
                                           const std::function<void(const std::filesystem::path&)>& check) {
  info.save_id = checkpoint::new_save_id();
  const std::string name = checkpoint::step_folder_name(info.step, info.save_id);
  // One identity for all: what a killed command left here is found whatever it was, and made anew.
  ResumableOutput partial(output, source, "new checkpoint", false);
  fs::remove_tree(partial.output(), Code::kCheckpoint);
  const std::filesystem::path folder = partial.output() / name;
  fs::make_directories(folder, Code::kCheckpoint);
  Progress progress(doing);
  const std::uint64_t total = checkpoint::byte_count(info.tensors);
  std::uint64_t done = 0;
  int rank = 0;
  for (const std::vector<Share>& shares : split_evenly(info.tensors, info.ranks)) {
    std::vector<checkpoint::Slice> slices;
    for (const Share& share : shares) {
      slices.push_back({.tensor = info.tensors[share.tensor],
                        .begin = share.begin,
                        .end = share.end,
                        .read = [&, share](std::uint64_t at, std::span<std::byte> to) {
                          fill(share.tensor, share.begin, at, to);
                          progress.show(done += to.size(), total);
                        }});
    }
    checkpoint::write_shard(folder, rank++, info.ranks, info.save_id, std::move(slices));
  }
  if (const std::string doubt = checkpoint::commit(folder, info); !doubt.empty())
    throw Error(Code::kCheckpoint, doubt);  // not visible to others yet
  check(folder);
  partial.publish();
  return output / name;
}

}  // namespace echelon::tool
