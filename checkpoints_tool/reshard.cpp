#include <iostream>

#include "base/error.h"
#include "checkpoint/read/leased_reader.h"
#include "checkpoint/read/reader.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/new_checkpoint.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;
using checkpoint::TensorInfo;

/// Checks that new and old shards have the same content: the new checksums of whole tensors were computed
/// from the written bytes.
void check_same_content(const Reader& from, const Path& folder) {
  const Reader to(folder);
  for (const TensorInfo& tensor : from.tensors()) {
    const auto expected = from.fingerprint(tensor.name);
    if (to.checksum(tensor.name) != from.checksum(tensor.name) ||
        (expected && to.fingerprint(tensor.name) != expected))
      throw Error(Code::kCheckpoint, "tensor '", tensor.name, "' differs after writing from '",
                  from.folder().string(), "': its data changed in memory; try again on another machine");
  }
}

}  // namespace

void reshard(const ReshardOptions& options) {
  const checkpoint::LeasedReader leased(options.checkpoint);
  const Path& folder = leased.folder;
  const Reader& reader = leased.reader;
  checkpoint::CommitInfo info{.step = reader.step(),
                              .ranks = options.world,
                              .tensors = reader.tensors(),
                              .trainer_state = reader.trainer_state(),
                              .resumed_from = reader.resumed_from()};
  for (const std::string& name : reader.attachments()) info.attachments[name] = reader.attachment(name);
  const auto fill = [&](std::size_t tensor, std::uint64_t begin, std::uint64_t at, std::span<std::byte> to) {
    const TensorInfo& wanted = reader.tensors()[tensor];
    const std::uint64_t size = size_of(wanted.dtype);
    reader.read(wanted.name, begin + at / size, begin + (at + to.size()) / size, to);
  };
  const Path made =
      write_new_checkpoint(options.output, folder, std::move(info), "resharding", fill,
                           [&](const Path& unpublished) { check_same_content(reader, unpublished); });
  std::cout << "wrote '" << made.string() << "', step " << reader.step() << ", "
            << counted(options.world, "shard") << " from " << reader.ranks() << '\n';
}

}  // namespace echelon::tool
