#include "base/files/model_name.h"

#include "base/str.h"

namespace echelon::fs {
namespace {

/// A path below a folder that exists is rather a mistyped one, and one in runs/ a run.
bool is_model_name(const std::filesystem::path& path) {
  const std::filesystem::path owner = path.parent_path();
  std::error_code ignored;
  return path.is_relative() && !owner.empty() && !owner.has_parent_path() && path.has_filename() &&
         owner != "." && owner != ".." && owner != "runs" && path.extension() != ".json" &&
         path.extension() != ".model" && path.extension() != ".safetensors" &&
         !std::filesystem::exists(owner, ignored);
}

}  // namespace

std::string download_advice(const std::filesystem::path& path, std::string_view separator) {
  if (!is_model_name(path)) return "";
  return str(separator, "models are not downloaded; run `hf download ", path.string(),
             " --local-dir FOLDER`, and name FOLDER");
}

}  // namespace echelon::fs
