#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace echelon::fs {

/// What an error about the absent `path` says more where it is like a name on Hugging Face's hub,
/// "org/model": that models are not downloaded, and the command that does it, behind `separator`. Else "".
[[nodiscard]] std::string download_advice(const std::filesystem::path& path, std::string_view separator);

}  // namespace echelon::fs
