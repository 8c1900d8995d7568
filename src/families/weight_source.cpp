#include "families/weight_source.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/files/model_name.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/safetensors_header.h"
#include "checkpoint/format/weight_index.h"

namespace echelon::families {
namespace {

using checkpoint::quoted;
using Path = std::filesystem::path;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool is_pickle(const Path& path) {
  const std::string name = path.filename().string();
  static constexpr std::array<std::string_view, 7> kEndings{".bin",  ".pt",     ".pth",     ".pkl",
                                                            ".ckpt", ".distcp", ".metadata"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

[[noreturn]] void refuse_pickle(const Path& path) {
  throw Error(Code::kUsage, quoted(path),
              " is a pickle file, which can run any program when it is read, so it is never "
              "opened here; convert it to safetensors first: see docs/echelon_ckpt.md");
}

/// Returns why a folder without the expected files is refused.
[[noreturn]] void refuse_folder(const Path& folder) {
  for (const Path& entry : fs::list_folder(folder, Code::kUsage)) {
    if (is_pickle(entry)) refuse_pickle(entry);
  }
  const std::string kind = checkpoint::other_kind_of(folder);
  throw Error(Code::kUsage, "folder ", quoted(folder), " holds neither ", kSingle, " nor ", kIndex,
              kind.empty() ? str("; if the file has another name, rename it ", kSingle) : kind);
}

/// Download caches consist of links, so the message says how to get plain files.
void refuse_link(const Path& path) {
  struct stat info {};
  if (fs::disk().lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    throw Error(Code::kCheckpoint, quoted(path),
                " is a symbolic link, which import does not follow; copy the folder with "
                "'cp -rL', or download it with 'hf download MODEL --local-dir FOLDER'");
  }
}

}  // namespace

WeightSource::WeightSource(const Path& input) {
  if (is_pickle(input)) refuse_pickle(input);
  if (!checkpoint::entry_exists(input))
    throw Error(Code::kUsage, "there is no ", quoted(input), fs::download_advice(input, ": "));
  if (input.filename().string().ends_with(".safetensors")) {
    folder_ = input.has_parent_path() ? input.parent_path() : Path(".");
    (void)add_file(input);
    return;
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(input, ignored)) {
    throw Error(Code::kUsage, quoted(input), " is neither a folder nor a .safetensors file");
  }
  folder_ = input;
  const bool single = checkpoint::entry_exists(input / kSingle);
  const bool indexed = checkpoint::entry_exists(input / kIndex);
  if (single && indexed) {
    throw Error(Code::kCheckpoint, "folder ", quoted(input), " holds both ", kSingle, " and ", kIndex,
                ": remove one of them");
  }
  if (!single && !indexed) refuse_folder(input);
  if (single) {
    (void)add_file(input / kSingle);
  } else {
    add_indexed(input / kIndex);
  }
}

std::uint64_t WeightSource::add_file(const Path& path) {
  refuse_link(path);
  File file{.path = path, .input = checkpoint::open_input(path)};
  if (fs::disk().fstat(file.input.fd.get(), &file.opened) != 0)
    throw Error(Code::kCheckpoint, "cannot stat ", quoted(path), ": ", fs::reason(errno));
  std::uint64_t bytes = 0;
  for (checkpoint::SafetensorsTensor& tensor :
       checkpoint::load_safetensors_header(file.input.fd, file.input.bytes, path)) {
    bytes += tensor.bytes;
    std::string name = tensor.info.name;
    SourceTensor source{std::move(tensor.info), files_.size(), tensor.offset, tensor.bytes,
                        tensor.other_type};
    const auto [at, added] = tensors_.emplace(std::move(name), std::move(source));
    if (!added) {
      throw Error(Code::kCheckpoint, "tensor '", at->first, "' is in ", quoted(path), " and in ",
                  quoted(files_[at->second.file].path));
    }
  }
  files_.push_back(std::move(file));
  return bytes;
}

void WeightSource::add_indexed(const Path& path) {
  refuse_link(path);
  const checkpoint::WeightIndex index = checkpoint::parse_weight_index(
      checkpoint::read_input(path, checkpoint::kMaxWeightIndexBytes), quoted(path));
  std::set<std::string> names;
  for (const auto& [tensor, file] : index.files) names.insert(file);
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    if (!checkpoint::entry_exists(folder_ / name))
      throw Error(Code::kCheckpoint, quoted(path), " lists the file '", name, "', which is missing");
    bytes += add_file(folder_ / name);
  }
  for (const auto& [tensor, file] : index.files) {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end()) {
      absent_.push_back(tensor);
    } else if (files_[found->second.file].path.filename() != file) {
      throw Error(Code::kCheckpoint, quoted(path), " lists tensor '", tensor, "' in '", file,
                  "', which does not contain it");
    }
  }
  for (const auto& [name, tensor] : tensors_) {
    if (!index.files.contains(name))
      throw Error(Code::kCheckpoint, "tensor '", name, "' in ", quoted(files_[tensor.file].path),
                  " is not listed in ", quoted(path));
  }
  if (index.total_size && bytes != *index.total_size && absent_.empty()) {
    throw Error(Code::kCheckpoint, quoted(path), " states 'total_size' ", *index.total_size,
                ", its tensors have ", bytes,
                " bytes: a file may be from another version; if all are right, correct the number");
  }
}

void WeightSource::read(const SourceTensor& tensor, std::uint64_t at, std::span<std::byte> to) const {
  const File& file = files_[tensor.file];
  if (at > tensor.bytes || to.size() > tensor.bytes - at)
    throw Error(Code::kCheckpoint, "tensor '", tensor.info.name, "' has only ", tensor.bytes, " bytes");
  fs::read_at(file.input.fd, tensor.offset + at, to, Code::kCheckpoint, file.path);
}

void WeightSource::check_unchanged() const {
  const auto same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  for (const File& file : files_) {
    struct stat now {};
    if (fs::disk().fstat(file.input.fd.get(), &now) == 0 && now.st_size == file.opened.st_size &&
        same(now.st_mtim, file.opened.st_mtim))
      continue;
    throw Error(Code::kCheckpoint, quoted(file.path), " changed while it was read; start again");
  }
}

}  // namespace echelon::families
