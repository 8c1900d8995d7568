#include "text/tokenizer_folder.h"

#include "base/error.h"
#include "base/files/fs.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

}  // namespace

TokenizerFolder::TokenizerFolder(const std::filesystem::path& tokenizer_file)
    : path_(tokenizer_file.has_parent_path() ? tokenizer_file.parent_path() : std::filesystem::path(".")),
      file_([folder = path_](const std::string& name) {
        std::error_code ignored;
        return std::filesystem::exists(folder / name, ignored)
                   ? fs::read_file(folder / name, kMostBytes, Code::kData)
                   : std::string();
      }) {}

SpecialIds TokenizerFolder::special_ids() const {
  return special_ids_of(file_, path_.string());
}

}  // namespace echelon
