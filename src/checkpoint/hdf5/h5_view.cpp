#include "checkpoint/hdf5/h5_view.h"

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/boxes.h"
#include "checkpoint/hdf5/h5_handle.h"
#include "checkpoint/hdf5/h5_memory.h"

namespace echelon::checkpoint {
namespace {

// Upper limit for metadata, which grows from the front; nothing comes after it.
constexpr std::uint64_t kMetadataLimit = std::uint64_t{1} << 40;

/// The value that libhdf5 shows where a source is missing: a quiet NaN, or an extreme integer.
std::uint64_t fill_bits(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0x7FC00000U;
    case DType::kBF16: return 0x7FC0U;
    case DType::kF16: return 0x7E00U;
    case DType::kF64: return 0x7FF8000000000000U;
    case DType::kI32: return 0x80000000U;
    case DType::kI64: return 0x8000000000000000U;
    case DType::kU8: return 0xFFU;
  }
  return 0;
}

void select(hid_t space, const std::vector<std::uint64_t>& start, const std::vector<std::uint64_t>& count) {
  const std::vector<hsize_t> from(start.begin(), start.end());
  const std::vector<hsize_t> size(count.begin(), count.end());
  h5_check(H5Sselect_hyperslab(space, H5S_SELECT_SET, from.data(), nullptr, size.data(), nullptr),
           "select a part of a data set");
}

// One mapping for each box: readers other than libhdf5 understand regular selections only.
void map_source(hid_t creation, hid_t space, const H5ViewDataset& dataset, const H5Source& source) {
  const hsize_t length = source.end - source.begin;
  const H5Handle piece(H5Screate_simple(1, &length, nullptr), H5Sclose, "make a space");
  std::uint64_t at = 0;
  for (const Box& box : boxes_of(dataset.shape, source.begin, source.end)) {
    std::uint64_t elements = 1;
    for (const std::uint64_t count : box.count) elements *= count;
    select(space, box.start, box.count);
    select(piece, {at}, {elements});
    // In the name of a source libhdf5 replaces "%b" by a block number and "%%" by a percent sign.
    const std::string file = replace_all(source.file, "%", "%%");
    h5_check(H5Pset_virtual(creation, space, file.c_str(), source.dataset.c_str(), piece),
             "map a part of a data set");
    at += elements;
  }
}

void add_dataset(hid_t file, const H5ViewDataset& dataset) {
  const H5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a property list");
  const H5Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make a property list");
  const H5Handle space(h5_space(dataset.shape), H5Sclose, "make a space");
  const H5Handle type(h5_type(dataset.dtype), H5Tclose, "make a type");
  h5_without_times(creation);
  h5_check(H5Pset_create_intermediate_group(links, 1), "choose to make groups");
  const std::uint64_t fill = fill_bits(dataset.dtype);
  h5_check(H5Pset_fill_value(creation, type, &fill), "set a fill value");
  if (dataset.shape.empty()) h5_check(H5Pset_layout(creation, H5D_COMPACT), "choose the compact layout");
  for (const H5Source& source : dataset.sources) {
    if (!dataset.shape.empty()) map_source(creation, space, dataset, source);
  }
  h5_check(H5Sselect_all(space), "select a data set");
  const H5Handle made(H5Dcreate2(file, dataset.path.c_str(), type, space, links, creation, H5P_DEFAULT),
                      H5Dclose, "make a data set");
  if (dataset.shape.empty())
    h5_check(H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.scalar.data()), "write a scalar");
}

}  // namespace

std::vector<std::byte> lay_out_h5_view(std::span<const H5ViewDataset> datasets,
                                       std::span<const H5Attribute> root) {
  H5Memory memory{.data_begin = kMetadataLimit, .keeps_all = true};
  h5_make_file(memory, 0, root, [&](hid_t file) {
    for (const H5ViewDataset& dataset : datasets) add_dataset(file, dataset);
  });
  memory.metadata.resize(memory.metadata_end);
  return memory.metadata;
}

H5ViewReader::H5ViewReader(const std::filesystem::path& path) {
  h5_quiet();
  const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a property list");
#if H5_VERSION_GE(1, 10, 7)
  // Shared file systems often refuse locks, and these files are never written again.
  h5_check(H5Pset_file_locking(access, false, true), "turn file locks off");
#endif
  file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  h5_check(file_ < 0 ? -1 : 0, str("open '", path.string(), '\'').c_str());
}

H5ViewReader::~H5ViewReader() {
  H5Fclose(file_);
}

std::vector<std::byte> H5ViewReader::elements(const std::string& path, DType dtype,
                                              std::span<const std::uint64_t> shape,
                                              std::span<const std::uint64_t> numbers) const {
  const H5Handle data(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose, "open a data set of the view");
  const H5Handle type(h5_type(dtype), H5Tclose, "make a type");
  const H5Handle stored_type(H5Dget_type(data), H5Tclose, "read a type");
  const H5Handle space(H5Dget_space(data), H5Sclose, "read a shape");
  const H5Handle expected(h5_space(shape), H5Sclose, "make a space");
  if (H5Tequal(type, stored_type) <= 0 || H5Sextent_equal(space, expected) <= 0)
    throw Error(Code::kCheckpoint, "the view shows tensor '", path, "' with another type or shape");
  const H5Handle memory(H5Screate(H5S_SCALAR), H5Sclose, "make a space");
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> out(numbers.size() * size);
  // One by one: libhdf5 1.10 crashes on selections of points in virtual data sets.
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<std::uint64_t> at(shape.size());
    std::uint64_t rest = numbers[i];
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) at[d] = rest % shape[d];
    if (!shape.empty()) select(space, at, std::vector<std::uint64_t>(shape.size(), 1));
    h5_check(H5Dread(data, type, memory, space, H5P_DEFAULT, out.data() + i * size), "read through the view");
  }
  return out;
}

}  // namespace echelon::checkpoint
