#include "image/image_folder.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::data {
namespace {

namespace stdfs = std::filesystem;

constexpr int kDeepest = 32;  // a link to a parent folder would recurse forever

bool is_image_name(const stdfs::path& path) {
  static constexpr std::array<std::string_view, 3> kEndings{".jpg", ".jpeg", ".png"};
  return std::ranges::find(kEndings, in_lower_case(path.extension().string())) != kEndings.end();
}

/// Folders and other entries of `folder`, each in name order. Links are followed.
struct Entries {
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

Entries entries_of(const stdfs::path& folder) {
  Entries entries;
  std::error_code error;
  stdfs::directory_iterator at(folder, error);
  for (; !error && at != stdfs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;  // a dangling link is reported when its image is read
    (at->is_directory(ignored) ? entries.folders : entries.files).push_back(name);
  }
  if (error) {
    throw Error(Code::kData, "cannot read image folder '", folder.string(), "': ", error.message());
  }
  std::ranges::sort(entries.folders);
  std::ranges::sort(entries.files);
  return entries;
}

/// Adds (folder, name) of each file of `folder`, which lies below `root`.
void collect_files(const stdfs::path& root, const std::string& folder, int depth,
                   std::vector<std::pair<std::string, std::string>>& found) {
  if (depth > kDeepest) {
    throw Error(Code::kData, "image folder '", (root / folder).string(), "' is nested more than ", kDeepest,
                " deep: does a link lead back to a folder above it?");
  }
  const Entries entries = entries_of(root / folder);
  for (const std::string& name : entries.files) found.emplace_back(folder, name);
  for (const std::string& name : entries.folders)
    collect_files(root, str(folder, "/", name), depth + 1, found);
}

}  // namespace

ImageFolder list_image_folder(const std::filesystem::path& folder) {
  ImageFolder list;
  Entries top = entries_of(folder);
  list.classes = std::move(top.folders);
  list.others = std::move(top.files);
  if (list.classes.empty()) {
    throw Error(Code::kData, "image folder '", folder.string(),
                "' has no subfolders; expected one for each class, with its images inside");
  }
  for (std::size_t label = 0; label < list.classes.size(); ++label) {
    std::vector<std::pair<std::string, std::string>> found;
    collect_files(folder, list.classes[label], 0, found);
    std::ranges::sort(found);  // by folder first, as torchvision
    const std::size_t before = list.files.size();
    for (const auto& [inside, name] : found) {
      const std::string path = str(inside, "/", name);
      if (is_image_name(name)) {
        list.files.push_back({static_cast<std::int64_t>(label), path});
      } else {
        list.others.push_back(path);
      }
    }
    if (list.files.size() == before) {
      throw Error(Code::kData, "image folder '", (folder / list.classes[label]).string(),
                  "' holds no .jpg, .jpeg or .png file; every subfolder is a class: remove it or fill it");
    }
  }
  return list;
}

}  // namespace echelon::data
