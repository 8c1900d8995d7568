#include "checkpoint/hdf5/h5_layout.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/str.h"
#include "checkpoint/hdf5/h5_handle.h"
#include "checkpoint/hdf5/h5_memory.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 4096;

/// Creates the data sets of one file, groups first.
class Builder {
 public:
  explicit Builder(hid_t file)
      : file_(file),
        group_creation_(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "make a property list"),
        data_creation_(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a property list") {
    h5_without_times(group_creation_);
    h5_without_times(data_creation_);
    // Contiguous, allocated at creation and never filled: every data set gets its address now, and the
    // library writes no raw data.
    h5_check(H5Pset_layout(data_creation_, H5D_CONTIGUOUS), "choose the contiguous layout");
    h5_check(H5Pset_alloc_time(data_creation_, H5D_ALLOC_TIME_EARLY), "choose early allocation");
    h5_check(H5Pset_fill_time(data_creation_, H5D_FILL_TIME_NEVER), "turn filling off");
  }

  /// Returns the address of the raw data inside the file.
  std::uint64_t add(const H5Dataset& dataset) {
    for (auto at = dataset.path.find('/'); at != std::string::npos; at = dataset.path.find('/', at + 1)) {
      const std::string group = dataset.path.substr(0, at);
      if (!groups_.insert(group).second) continue;
      const H5Handle made(H5Gcreate2(file_, group.c_str(), H5P_DEFAULT, group_creation_, H5P_DEFAULT),
                          H5Gclose, "make a group");
    }
    const std::vector<hsize_t> shape(dataset.shape.begin(), dataset.shape.end());
    const H5Handle space(shape.empty()
                             ? H5Screate(H5S_SCALAR)
                             : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                         H5Sclose, "make a space");
    const H5Handle type(h5_type(dataset.dtype), H5Tclose, "make a type");
    const H5Handle made(
        H5Dcreate2(file_, dataset.path.c_str(), type, space, H5P_DEFAULT, data_creation_, H5P_DEFAULT),
        H5Dclose, "make a data set");
    for (const H5Attribute& attribute : dataset.attributes) h5_add_attribute(made, attribute);
    const bool empty = H5Sget_simple_extent_npoints(space) == 0;
    const haddr_t address = H5Dget_offset(made);
    if (!empty && address == HADDR_UNDEF) h5_check(-1, "locate a data set");
    return empty ? 0 : address;
  }

 private:
  hid_t file_;
  H5Handle group_creation_;
  H5Handle data_creation_;
  std::set<std::string> groups_;
};

std::vector<std::uint64_t> build(H5Memory& memory, std::span<const H5Dataset> datasets,
                                 std::uint64_t user_block, std::span<const H5Attribute> root) {
  const H5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make a property list");
  const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a property list");
  h5_without_times(creation);
  h5_check(H5Pset_userblock(creation, user_block), "set the user block");
  // This format version has checksums for its metadata, so libhdf5 notices a flipped bit there.
  h5_check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose the format version");
  if (!use_memory(access, &memory)) h5_check(-1, "use a file in memory");
  H5Handle file(H5Fcreate("layout", H5F_ACC_TRUNC, creation, access), H5Fclose, "make a file");
  std::vector<std::uint64_t> offsets;
  {
    Builder builder(file);
    for (const H5Attribute& attribute : root) h5_add_attribute(file, attribute);
    for (const H5Dataset& dataset : datasets) offsets.push_back(builder.add(dataset));
  }
  file.finish("finish a file");
  if (memory.out_of_memory) throw std::bad_alloc();
  return offsets;
}

}  // namespace

H5Layout lay_out_h5(std::span<const H5Dataset> datasets, std::uint64_t user_block,
                    std::span<const H5Attribute> root) {
  h5_quiet();
  // Addresses count from the start of the user block. The first round, with raw data far away, measures the
  // metadata. The second one repeats it with the raw data right after.
  H5Memory probe{.data_begin = std::uint64_t{1} << 40};
  (void)build(probe, datasets, user_block, root);
  const std::uint64_t metadata_bytes = (probe.metadata_end + kAlignment - 1) / kAlignment * kAlignment;
  H5Memory memory{.data_begin = metadata_bytes};
  H5Layout layout{.user_block = user_block};
  layout.offsets = build(memory, datasets, user_block, root);
  memory.metadata.resize(metadata_bytes);
  layout.metadata.assign(memory.metadata.begin() + static_cast<std::ptrdiff_t>(user_block),
                         memory.metadata.end());
  layout.file_bytes = std::max(memory.data_end, metadata_bytes);
  return layout;
}

std::string h5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return str(major, '.', minor, '.', release);
}

}  // namespace echelon::checkpoint
