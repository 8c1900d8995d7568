#include "checkpoints_tool/convert/folder_size.h"

namespace echelon::tool {

std::uint64_t folder_size(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) return 0;
  if (std::filesystem::is_regular_file(path, ignored)) return std::filesystem::file_size(path, ignored);
  std::uint64_t sum = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_regular_file(ignored) && !at->is_symlink(ignored)) sum += at->file_size(ignored);
  }
  return sum;
}

}  // namespace echelon::tool
