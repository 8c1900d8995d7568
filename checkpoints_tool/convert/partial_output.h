#pragma once
#include <filesystem>

namespace echelon::tool {

/// `path` without a slash at the end; its parent folders are made. Throws Error(kUsage) when it exists, lies
/// inside `checkpoint`, or they cannot be made.
[[nodiscard]] std::filesystem::path checked_output(std::filesystem::path path,
                                                   const std::filesystem::path& checkpoint);
/// The folder that holds `path`.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& path);

/// Gives `made`, whose content is durable already, the name `output`, durably. Throws Error(kUsage) when
/// somebody took that name meanwhile.
void publish_output(const std::filesystem::path& made, const std::filesystem::path& output);

/// "<output>.partial-<id>", with an id of its own: the name of `output` while it is made.
[[nodiscard]] std::filesystem::path partial_name(const std::filesystem::path& output);

}  // namespace echelon::tool
