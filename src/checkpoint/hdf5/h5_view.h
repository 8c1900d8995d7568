#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/not_copied.h"
#include "checkpoint/hdf5/h5_layout.h"

/// HDF5 virtual data sets: files that show data of other files as if it were theirs.
namespace echelon::checkpoint {

/// Elements [begin, end) of a flattened tensor: the whole of the one-dimensional data set `dataset` in
/// `file`.
struct H5Source {
  std::string file;  ///< path as stored: relative ones are meant from the view's folder
  std::string dataset;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A whole tensor made of pieces that cover it.
struct H5ViewDataset {
  std::string path;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::vector<H5Source> sources;
  std::vector<std::byte>
      scalar;  ///< the value itself when the shape is empty: libhdf5 has no virtual scalars
};

/// The bytes of a view file. libhdf5 gives the fill value where it cannot open a source, without an error;
/// here that is NaN, or the lowest value of signed integers and 255 of bytes, so that it is never mistaken
/// for zeros. Throws Error(kCheckpoint).
[[nodiscard]] std::vector<std::byte> lay_out_h5_view(std::span<const H5ViewDataset> datasets,
                                                     std::span<const H5Attribute> root);

/// Reads single elements of a tensor through libhdf5, as another program would. For files whose content was
/// checked before: libhdf5 parses them.
class H5ViewReader : NotCopied {
 public:
  explicit H5ViewReader(const std::filesystem::path& path);
  ~H5ViewReader();
  /// The elements with these numbers in the flattened tensor, one after the other, in the file's type. Throws
  /// Error(kCheckpoint), also when type or shape are not the stated ones.
  [[nodiscard]] std::vector<std::byte> elements(const std::string& path, DType dtype,
                                                std::span<const std::uint64_t> shape,
                                                std::span<const std::uint64_t> numbers) const;

 private:
  std::int64_t file_;
};

}  // namespace echelon::checkpoint
