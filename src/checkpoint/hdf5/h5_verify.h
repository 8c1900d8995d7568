#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/folder/files.h"
#include "checkpoint/format/shard_index.h"
#include "checkpoint/hdf5/limited_child.h"

namespace echelon::checkpoint {

/// A difference between what HDF5 tools see in a shard and its index.
struct H5Problem {
  std::string tensor;  ///< empty: of the file as a whole
  std::string problem;
};

/// Lets libhdf5 parse a shard, in a limited child process, and compares: the same data sets and no others,
/// each contiguous at the indexed offset, with type, size and attributes as indexed; hard links only, no
/// external or virtual storage, no filters. A child that crashes or does not end is a problem of the file.
/// Throws Error(kEnvironment) where a child cannot be limited.
[[nodiscard]] std::vector<H5Problem> verify_h5(const InputFile& file, const ShardIndex& index,
                                               const ChildLimits& limits = {});

/// Parses the child's output, one problem per line: tensor, tab, text. A hostile file may control that
/// output: texts are made safe to show, unknown tensor names are dropped, and only the first of too many
/// problems are kept.
[[nodiscard]] std::vector<H5Problem> read_h5_problems(std::string_view output, const ShardIndex& index);

}  // namespace echelon::checkpoint
