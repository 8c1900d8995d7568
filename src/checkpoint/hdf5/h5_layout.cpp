#include "checkpoint/hdf5/h5_layout.h"

#include <algorithm>
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
    const H5Handle space(h5_space(dataset.shape), H5Sclose, "make a space");
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

}  // namespace

H5Layout lay_out_h5(std::span<const H5Dataset> datasets, std::uint64_t user_block,
                    std::span<const H5Attribute> root) {
  H5Layout layout{.user_block = user_block};
  const auto build = [&](H5Memory& memory) {
    layout.offsets.clear();
    h5_make_file(memory, user_block, root, [&](hid_t file) {
      Builder builder(file);
      for (const H5Dataset& dataset : datasets) layout.offsets.push_back(builder.add(dataset));
    });
  };
  // Addresses count from the start of the user block. The first round, with raw data far away, measures the
  // metadata. The second one repeats it with the raw data right after.
  H5Memory probe{.data_begin = std::uint64_t{1} << 40};
  build(probe);
  const std::uint64_t metadata_bytes = (probe.metadata_end + kAlignment - 1) / kAlignment * kAlignment;
  H5Memory memory{.data_begin = metadata_bytes};
  build(memory);
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
