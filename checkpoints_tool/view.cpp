#include <iostream>

#include "base/error.h"
#include "base/files/new_file.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/hdf5/h5_view.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/read/verify.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/partial_output.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

using checkpoint::Contents;
using checkpoint::H5ViewDataset;
using checkpoint::Reader;
using checkpoint::TensorInfo;

std::vector<std::uint64_t> shape_of(const TensorInfo& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

/// Each tensor with the shards that hold its pieces; `folder`: from the view to them.
std::vector<H5ViewDataset> datasets_of(const Contents& contents, const Reader& reader, const Path& folder) {
  std::vector<H5ViewDataset> datasets;
  for (const TensorInfo& tensor : contents.manifest.tensors) {
    H5ViewDataset& dataset = datasets.emplace_back();
    dataset.path = tensor.name;
    dataset.dtype = tensor.dtype;
    dataset.shape = shape_of(tensor);
    for (const auto& piece : reader.pieces(tensor.name)) {
      const auto& shard = contents.manifest.shards[piece.rank];
      dataset.sources.push_back({(folder / shard.file).string(), "/" + tensor.name, piece.begin, piece.end});
    }
    if (tensor.shape.empty()) {
      dataset.scalar.resize(size_of(tensor.dtype));
      reader.read(tensor.name, 0, 1, dataset.scalar);
    }
  }
  return datasets;
}

/// Reads the first and the last element of every piece through the view and compares them with the shards.
/// A wrong or missing mapping changes at least one of them.
void check_view(const Path& path, const Reader& reader) {
  const checkpoint::H5ViewReader view(path);
  Progress progress("checking", "tensors");
  std::uint64_t done = 0;
  for (const TensorInfo& tensor : reader.tensors()) {
    progress.show(++done, reader.tensors().size());
    std::vector<std::uint64_t> numbers;
    std::vector<std::byte> expected;
    const std::size_t size = size_of(tensor.dtype);
    for (const auto& piece : reader.pieces(tensor.name)) {
      for (const std::uint64_t number : {piece.begin, piece.end - 1}) {
        numbers.push_back(number);
        expected.resize(expected.size() + size);
        reader.read(tensor.name, number, number + 1, std::span(expected).last(size));
      }
    }
    if (tensor.shape.empty()) {
      numbers.resize(1);
      expected.resize(size);
    }
    if (numbers.empty() || view.elements(tensor.name, tensor.dtype, shape_of(tensor), numbers) == expected)
      continue;
    throw Error(Code::kCheckpoint, "tensor '", tensor.name, "' reads differently through the view");
  }
}

}  // namespace

void make_view(const ViewOptions& options) {
  const Path folder = checkpoint::newest_commit(options.checkpoint);
  const checkpoint::FolderLease lease(folder);
  checkpoint::warn_without(lease);
  const Contents contents = checkpoint::load_contents(folder);
  for (const auto& shard : contents.shards) {
    const auto& file = contents.manifest.shards[static_cast<std::size_t>(shard.rank)].file;
    checkpoint::check_layout(contents.folder / file, shard);
  }
  const Reader reader(contents.folder);
  const Path output = checked_output(options.output, contents.folder);
  const Path from = std::filesystem::canonical(folder_of(output));
  const Path to = std::filesystem::canonical(contents.folder).lexically_relative(from);
  const std::vector<std::byte> bytes =
      checkpoint::lay_out_h5_view(datasets_of(contents, reader, to),
                                  std::vector<checkpoint::H5Attribute>{{"step", {reader.step()}, true}});
  fs::NewFile file(partial_name(output), Code::kCheckpoint);
  file.reserve(bytes.size());
  file.write(0, bytes);
  file.finish();
  check_view(file.path(), reader);
  publish_output(file.path(), output);
  file.keep();
  std::cout << "wrote '" << options.output.string() << "': " << reader.tensors().size() << " tensors of step "
            << reader.step() << ", whose bytes stay in '" << contents.folder.string() << "'\n";
}

}  // namespace echelon::tool
