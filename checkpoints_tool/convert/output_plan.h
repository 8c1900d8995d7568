#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/format/tensor.h"
#include "families/output_type.h"

/// The layout of a conversion's output, computed in advance from the manifest alone. The same checkpoint
/// and options always give the same plan, so an interrupted conversion can resume.
namespace echelon::tool {

/// Unit of work, of memory and of the journal. Windows lie at multiples of this in each file.
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{8} << 20;

/// An update of a matrix [outputs, inputs]: scale * B A is added in fp32.
struct LowRank {
  checkpoint::TensorInfo a;  ///< [rank, inputs]
  checkpoint::TensorInfo b;  ///< [outputs, rank]
  double scale = 1.0;
};

/// A whole tensor of the output.
struct OutputTensor {
  checkpoint::TensorInfo source;
  std::string name;  ///< in the output
  DType dtype = DType::kF32;
  bool transposed = false;            ///< a matrix [r, c] that is written as [c, r]
  std::optional<LowRank> added = {};  ///< not to a transposed one
  std::uint64_t offset = 0;           ///< in its file
  std::uint64_t bytes = 0;

  [[nodiscard]] std::vector<std::int64_t> shape() const;  ///< as it is written
};

struct OutputFile {
  std::string name;             ///< inside the output folder; empty: the output is this file
  std::vector<std::byte> head;  ///< its first bytes; what neither head nor tensors cover is zero
  std::uint64_t bytes = 0;
  std::vector<OutputTensor> tensors;  ///< by rising offset, none without bytes
};

struct OutputPlan {
  std::vector<OutputFile> files;
};

/// Bytes [begin, end) of file `file` of a plan, apart from what lies in it of transposed tensors.
struct Window {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
/// All windows, file by file.
[[nodiscard]] std::vector<Window> windows_of(const OutputPlan& plan);

/// The part of a tensor in a window.
struct Part {
  const OutputTensor* tensor = nullptr;
  std::uint64_t begin = 0;  ///< elements [begin, end) of the flattened tensor as it is written
  std::uint64_t end = 0;
};
/// Returns the parts of tensors in a window, in file order. Windows never cut an element: tensors are aligned
/// to their element size.
[[nodiscard]] std::vector<Part> parts_of(const OutputFile& file, const Window& window);

/// A part of a transposed tensor: rows and columns of the matrix as it is stored.
struct Tile {
  std::size_t file = 0;
  const OutputTensor* tensor = nullptr;
  std::uint64_t row = 0;
  std::uint64_t rows = 0;
  std::uint64_t column = 0;
  std::uint64_t columns = 0;

  [[nodiscard]] std::uint64_t bytes() const { return rows * columns * size_of(tensor->dtype); }
};
/// All tiles of all transposed tensors, each of at most `most` bytes, which is at least kWindowBytes. If a
/// matrix does not fit, its tiles hold whole rows or long stretches of many rows. So few checksum blocks are
/// read for two tiles, and no written piece of a column is tiny.
[[nodiscard]] std::vector<Tile> tiles_of(const OutputPlan& plan, std::uint64_t most);

[[nodiscard]] std::uint64_t planned_bytes(const OutputPlan& plan);

/// A tensor as it is: same name and shape; floating-point numbers as `type`. Changed as wished before it is
/// given to the functions below.
[[nodiscard]] OutputTensor whole_tensor(const checkpoint::TensorInfo& source,
                                        families::OutputType type = families::OutputType::kSame);

/// One HDF5 file with the attribute `step` at the root.
[[nodiscard]] OutputFile plan_hdf5(std::vector<OutputTensor> tensors, std::int64_t step);

/// One or more safetensors files and the text of the index file that belongs to more than one.
struct SafetensorsPlan {
  std::vector<OutputFile> files;
  std::string index_name;  ///< empty: one file needs no index
  std::string index_text;
};
/// Splits as huggingface_hub does: in the given order, greedily, a tensor above `max_shard_bytes` in a file
/// of its own. Files are called <stem>.safetensors or <stem>-00001-of-0000N.safetensors. Throws
/// Error(kCheckpoint) when a header would exceed the format's limit.
[[nodiscard]] SafetensorsPlan plan_safetensors(std::vector<OutputTensor> tensors, const std::string& stem,
                                               std::uint64_t max_shard_bytes);

}  // namespace echelon::tool
