#include "checkpoint/h5_layout.h"

#include <hdf5.h>

#include <set>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/h5_memory.h"
#include "checkpoint/h5_type.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 4096;

/// Owns one libhdf5 handle.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close, const char* what) : id_(id), close_(close) {
    if (id < 0) throw Error(Code::kCheckpoint, str("cannot lay out an HDF5 file: libhdf5 could not ", what));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }
  /// Closes with the result looked at: closing a file is what writes it.
  void finish(const char* what) {
    const hid_t id = std::exchange(id_, -1);
    if (close_(id) < 0)
      throw Error(Code::kCheckpoint, str("cannot lay out an HDF5 file: libhdf5 could not ", what));
  }

 private:
  hid_t id_;
  Close close_;
};

void check(herr_t status, const char* what) {
  if (status < 0)
    throw Error(Code::kCheckpoint, str("cannot lay out an HDF5 file: libhdf5 could not ", what));
}

// Creation times would make two layouts of the same tensors differ.
void without_times(hid_t creation) {
  check(H5Pset_obj_track_times(creation, false), "turn time stamps off");
}

void add_attribute(hid_t object, const H5Attribute& wanted) {
  const hsize_t size = wanted.values.size();
  const Handle space(wanted.scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, nullptr), H5Sclose,
                     "make a space");
  const Handle attribute(
      H5Acreate2(object, wanted.name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "make an attribute");
  if (size != 0) check(H5Awrite(attribute, H5T_NATIVE_INT64, wanted.values.data()), "write an attribute");
}

/// Makes the data sets of one file, groups first.
class Builder {
 public:
  explicit Builder(hid_t file)
      : file_(file),
        group_creation_(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "make a property list"),
        data_creation_(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a property list") {
    without_times(group_creation_);
    without_times(data_creation_);
    check(H5Pset_layout(data_creation_, H5D_CONTIGUOUS), "choose the contiguous layout");
    check(H5Pset_alloc_time(data_creation_, H5D_ALLOC_TIME_EARLY), "choose early allocation");
    check(H5Pset_fill_time(data_creation_, H5D_FILL_TIME_NEVER), "turn filling off");
  }

  /// Returns the address of the raw data inside the file.
  std::uint64_t add(const H5Dataset& dataset) {
    for (auto at = dataset.path.find('/'); at != std::string::npos; at = dataset.path.find('/', at + 1)) {
      const std::string group = dataset.path.substr(0, at);
      if (!groups_.insert(group).second) continue;
      const Handle made(H5Gcreate2(file_, group.c_str(), H5P_DEFAULT, group_creation_, H5P_DEFAULT), H5Gclose,
                        "make a group");
    }
    const std::vector<hsize_t> shape(dataset.shape.begin(), dataset.shape.end());
    const Handle space(shape.empty()
                           ? H5Screate(H5S_SCALAR)
                           : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                       H5Sclose, "make a space");
    const Handle type(make_h5_type(dataset.dtype), H5Tclose, "make a type");
    const Handle made(
        H5Dcreate2(file_, dataset.path.c_str(), type, space, H5P_DEFAULT, data_creation_, H5P_DEFAULT),
        H5Dclose, "make a data set");
    for (const H5Attribute& attribute : dataset.attributes) add_attribute(made, attribute);
    const bool empty = H5Sget_simple_extent_npoints(space) == 0;
    const haddr_t address = H5Dget_offset(made);
    if (!empty && address == HADDR_UNDEF) check(-1, "tell where a data set lies");
    return empty ? 0 : address;
  }

 private:
  hid_t file_;
  Handle group_creation_;
  Handle data_creation_;
  std::set<std::string> groups_;
};

std::vector<std::uint64_t> build(H5Memory& memory, std::span<const H5Dataset> datasets,
                                 std::uint64_t user_block, std::span<const H5Attribute> root) {
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make a property list");
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a property list");
  without_times(creation);
  check(H5Pset_userblock(creation, user_block), "set the user block");
  // This format checksums its metadata: libhdf5 itself notices a flipped bit there.
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose the format version");
  if (!use_memory(access, &memory)) check(-1, "use a file in memory");
  Handle file(H5Fcreate("layout", H5F_ACC_TRUNC, creation, access), H5Fclose, "make a file");
  std::vector<std::uint64_t> offsets;
  {
    Builder builder(file);
    for (const H5Attribute& attribute : root) add_attribute(file, attribute);
    for (const H5Dataset& dataset : datasets) offsets.push_back(builder.add(dataset));
  }
  file.finish("finish a file");
  return offsets;
}

}  // namespace

H5Layout lay_out_h5(std::span<const H5Dataset> datasets, std::uint64_t user_block,
                    std::span<const H5Attribute> root) {
  H5Eset_auto2(H5E_DEFAULT, nullptr,
               nullptr);  // failures become our one-line errors, not libhdf5's stack print
  // Addresses count from the start of the user block. First round: how much metadata is there? Second round:
  // the same again with the raw data right behind it.
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
