#pragma once
#include <cstdint>
#include <filesystem>

namespace echelon::tool {

/// Total size of the regular files in a tree, without following links; unreadable entries count 0.
[[nodiscard]] std::uint64_t folder_size(const std::filesystem::path& path);

}  // namespace echelon::tool
