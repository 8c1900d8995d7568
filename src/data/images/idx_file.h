#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace echelon::data {

/// The content of an idx file (the format of MNIST, yann.lecun.com/exdb/mnist): unsigned bytes, the last
/// dimension fastest.
struct IdxFile {
  std::vector<std::int64_t> dimensions;
  std::vector<std::uint8_t> values;
};

/// Reads an idx file of `dimensions` dimensions, plain or gzip. The sizes in its header are compared with the
/// file's size before memory is allocated. Throws Error(kData): missing, foreign, another number type or
/// number of dimensions, a dimension of zero, cut short, longer than its header says, damaged gzip, more than
/// 16 GiB.
[[nodiscard]] IdxFile read_idx(const std::filesystem::path& path, std::size_t dimensions);

/// The labels file that lies beside an images file: "train-images-idx3-ubyte.gz" has
/// "train-labels-idx1-ubyte.gz", or the same without or with .gz. Throws Error(kData) naming what was looked
/// for.
[[nodiscard]] std::filesystem::path find_labels(const std::filesystem::path& images);

}  // namespace echelon::data
