#include "checkpoint/hdf5/h5_verify.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/foreign_text.h"
#include "base/str.h"
#include "checkpoint/hdf5/h5_handle.h"
#include "checkpoint/hdf5/h5_input.h"

namespace echelon::checkpoint {
namespace {

constexpr std::size_t kMaxProblems = 100;
constexpr hsize_t kMaxLinks = 1'000'000;  ///< in one group

/// Owns one libhdf5 handle. It may be invalid: with a hostile file that is a finding, not an exception.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }
  [[nodiscard]] bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

/// The comparison itself; runs in the child.
class Comparison {
 public:
  Comparison(const H5Input& input, const ShardIndex& index) : input_(input), index_(index) {
    for (const ShardEntry& entry : index.entries) {
      const std::string& name = entry.tensor.name;
      entries_[name] = &entry;
      for (auto at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
        groups_.insert(name.substr(0, at));
    }
  }

  /// Problems, one a line: tensor, tab, text.
  std::string run() {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    if (!access.valid() || !use_input(access, &input_)) return "\tlibhdf5 cannot be set up\n";
    const Handle file(H5Fopen("/shard", H5F_ACC_RDONLY, access), H5Fclose);
    if (!file.valid()) return "\tlibhdf5 cannot open it\n";
    const Handle creation(H5Fget_create_plist(file), H5Pclose);
    hsize_t user_block = 0;
    if (H5Pget_userblock(creation, &user_block) < 0 || user_block != index_.index_bytes)
      add("", str("HDF5 begins at byte ", user_block, ", the index ends at ", index_.index_bytes));
    const Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
    expect_attributes(root, "", {{"rank", {index_.rank}}, {"ranks", {index_.ranks}}});
    walk(root, "");
    for (const auto& [name, entry] : entries_) {
      if (!seen_.contains(name)) add(name, "there is no such data set");
    }
    return text_;
  }

 private:
  void add(const std::string& tensor, const std::string& problem) {
    if (++problems_ <= kMaxProblems) text_ += str(tensor, '\t', problem, '\n');
  }

  // Follows only names that are in the index, so the depth is bounded and no cycle is entered.
  void walk(hid_t group, const std::string& prefix) {
    H5G_info_t info{};
    if (group < 0 || H5Gget_info(group, &info) < 0 || info.nlinks > kMaxLinks)
      return add("", str("group '", prefix, "' cannot be read"));
    for (hsize_t i = 0; i < info.nlinks && problems_ <= kMaxProblems; ++i) link(group, prefix, i);
  }

  void link(hid_t group, const std::string& prefix, hsize_t number) {
    const auto name = link_name(group, number);
    if (!name) return add("", str("link ", number, " of group '", prefix, "' cannot be read"));
    const std::string path = prefix + *name;
    H5L_info_t info{};
    if (H5Lget_info(group, name->c_str(), &info, H5P_DEFAULT) < 0)
      return add("", str("link '", printable(path), "' cannot be read"));
    if (info.type != H5L_TYPE_HARD)
      return add("", str("'", printable(path), "' is a ",
                         info.type == H5L_TYPE_SOFT ? "soft" : "external or user-defined", " link"));
    const bool is_group = groups_.contains(path);
    const auto entry = entries_.find(path);
    if (!is_group && entry == entries_.end())
      return add("", str("'", printable(path), "' is not in the index"));
    const Handle object(H5Oopen(group, name->c_str(), H5P_DEFAULT), H5Oclose);
    const H5I_type_t kind = object.valid() ? H5Iget_type(object) : H5I_BADID;
    if (kind != (is_group ? H5I_GROUP : H5I_DATASET))
      return add(is_group ? "" : path,
                 str("'", path, "' is not a ", is_group ? "group" : "data set", ", or cannot be read"));
    if (is_group) return walk(object, path + "/");
    seen_.insert(path);
    data_set(object, *entry->second);
  }

  static std::optional<std::string> link_name(hid_t group, hsize_t number) {
    std::array<char, 300> name{};
    const ssize_t size = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, number, name.data(),
                                            name.size(), H5P_DEFAULT);
    if (size <= 0 || static_cast<std::size_t>(size) >= name.size()) return std::nullopt;
    return std::string(name.data(), static_cast<std::size_t>(size));
  }

  void data_set(hid_t data, const ShardEntry& entry) {
    const std::string& name = entry.tensor.name;
    const Handle creation(H5Dget_create_plist(data), H5Pclose);
    const H5D_layout_t layout = H5Pget_layout(creation);
    if (layout == H5D_VIRTUAL) return add(name, "its storage is virtual: in other files");
    if (layout != H5D_CONTIGUOUS) return add(name, "its storage is not contiguous");
    if (H5Pget_external_count(creation) != 0) return add(name, "its storage is external: in other files");
    if (H5Pget_nfilters(creation) != 0) return add(name, "its storage is filtered");
    const Handle type(H5Dget_type(data), H5Tclose);
    const Handle wanted(h5_type(entry.tensor.dtype), H5Tclose);
    if (H5Tequal(type, wanted) <= 0) add(name, str("its type is not ", name_of(entry.tensor.dtype)));
    const Handle space(H5Dget_space(data), H5Sclose);
    hsize_t size = 0;
    hsize_t most = 0;
    if (H5Sget_simple_extent_ndims(space) != 1 || H5Sget_simple_extent_dims(space, &size, &most) != 1 ||
        size != entry.end - entry.begin || most != size)
      add(name, str("it is not one row of ", entry.end - entry.begin, " elements"));
    if (const haddr_t offset = H5Dget_offset(data); offset != entry.file_offset)
      add(name, str("HDF5 has it at byte ", offset, ", the index at ", entry.file_offset));
    if (const hsize_t bytes = H5Dget_storage_size(data); bytes != entry.bytes)
      add(name, str("HDF5 stores ", bytes, " bytes, the index ", entry.bytes));
    const std::vector<std::int64_t>& shape = entry.tensor.shape;
    expect_attributes(data, name,
                      {{"global_shape", shape},
                       {"flat_begin", {static_cast<std::int64_t>(entry.begin)}},
                       {"flat_end", {static_cast<std::int64_t>(entry.end)}}});
  }

  void expect_attributes(hid_t object, const std::string& tensor,
                         const std::vector<std::pair<const char*, std::vector<std::int64_t>>>& wanted) {
    for (const auto& [name, values] : wanted) {
      if (read_attribute(object, name, values.size()) != values)
        add(tensor, str("attribute '", name, "' differs from the index"));
    }
  }

  /// Nothing unless it is exactly `count` plain 64-bit integers.
  static std::optional<std::vector<std::int64_t>> read_attribute(hid_t object, const char* name,
                                                                 std::size_t count) {
    if (object < 0 || H5Aexists(object, name) <= 0) return std::nullopt;
    const Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
    if (!attribute.valid()) return std::nullopt;
    const Handle type(H5Aget_type(attribute), H5Tclose);
    const Handle space(H5Aget_space(attribute), H5Sclose);
    if (H5Tequal(type, H5T_STD_I64LE) <= 0 ||
        H5Sget_simple_extent_npoints(space) != static_cast<hssize_t>(count))
      return std::nullopt;
    std::vector<std::int64_t> values(count);
    if (count != 0 && H5Aread(attribute, H5T_NATIVE_INT64, values.data()) < 0) return std::nullopt;
    return values;
  }

  const H5Input& input_;
  const ShardIndex& index_;
  std::map<std::string, const ShardEntry*> entries_;
  std::set<std::string> groups_;
  std::set<std::string> seen_;
  std::string text_;
  std::size_t problems_ = 0;
};

void prepare_library() {
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);  // no plugins: a file may name a filter, and so code to load
}

}  // namespace

std::vector<H5Problem> verify_h5(const InputFile& file, const ShardIndex& index, const ChildLimits& limits) {
  const H5Input input{file.fd.get(), file.bytes};
  const ChildResult result = run_limited(
      input.fd, prepare_library, [&] { return Comparison(input, index).run(); }, limits);
  if (!result.failure.empty())
    return {{"", "libhdf5 failed on it: the process that parsed it " + result.failure}};
  return read_h5_problems(result.output, index);
}

std::vector<H5Problem> read_h5_problems(std::string_view output, const ShardIndex& index) {
  std::vector<H5Problem> problems;
  while (!output.empty() && problems.size() <= kMaxProblems) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    const std::size_t tab = std::min(line.find('\t'), line.size());
    const std::string_view tensor = line.substr(0, tab);
    // The child may be under the file's control, so its output is checked like any other input.
    const bool known = std::any_of(index.entries.begin(), index.entries.end(),
                                   [&](const ShardEntry& entry) { return entry.tensor.name == tensor; });
    problems.push_back(
        {known ? std::string(tensor) : "", foreign_text(line.substr(std::min(tab + 1, line.size())))});
  }
  return problems;
}

}  // namespace echelon::checkpoint
