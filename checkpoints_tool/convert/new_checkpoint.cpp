#include "checkpoints_tool/convert/new_checkpoint.h"

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/write/shard_write.h"
#include "checkpoints_tool/convert/even_split.h"
#include "checkpoints_tool/convert/resumable_output.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {

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
