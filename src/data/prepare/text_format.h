#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"
#include "data/prepare/sources.h"

namespace echelon::data {

/// Returns the patterns of a folder's files that an empty options.include stands for; for kBySuffix those of
/// every format.
[[nodiscard]] std::vector<std::string> default_include(TextFormat format);

/// Returns the format that a file's name states, without regard to .gz or .zst behind it; kBySuffix: none.
[[nodiscard]] TextFormat format_of(const std::filesystem::path& file);

/// Returns whether a source of settled `options` is a Parquet file.
[[nodiscard]] bool is_parquet(const SourceFile& file, const PrepareOptions& options);

/// Returns `options` with the choices that they leave to the sources: the format by the files' suffixes, and
/// the treatment of bad records. A file whose name states no format is text. Throws Error(kUsage) when the
/// files are of more than one format, a Parquet file is to be read as another one, or a field is named of
/// what has none.
[[nodiscard]] PrepareOptions settle_format(const PrepareOptions& options,
                                           const std::vector<SourceFile>& files);

/// One line for the user: how many files are read as what, and why.
[[nodiscard]] std::string describe_format(const PrepareOptions& settled,
                                          const std::vector<SourceFile>& files);

}  // namespace echelon::data
