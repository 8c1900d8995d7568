#pragma once
#include <cstdint>
#include <filesystem>

namespace echelon::tool {

/// Bytes of the regular files in a tree, links not followed; what cannot be read counts nothing.
[[nodiscard]] std::uint64_t folder_size(const std::filesystem::path& path);

}  // namespace echelon::tool
