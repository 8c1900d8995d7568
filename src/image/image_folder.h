#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace echelon::data {

/// The image files of a folder with one subfolder for each class, as torchvision's ImageFolder lists them:
/// classes in the order of their names, files (.jpg, .jpeg, .png; of subfolders too) in the order of theirs.
/// Names that start with '.' do not count.
struct ImageFolder {
  struct File {
    std::int64_t label = 0;
    std::string path;  ///< below the folder
  };
  std::vector<std::string> classes;
  std::vector<File> files;
  std::vector<std::string> others;  ///< files of other kinds, left out
};

/// Throws Error(kData): missing, no folder, no subfolders, a class without images, an unreadable or endlessly
/// nested folder.
[[nodiscard]] ImageFolder list_image_folder(const std::filesystem::path& folder);

}  // namespace echelon::data
