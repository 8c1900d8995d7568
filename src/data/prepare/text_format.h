#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"
#include "data/prepare/sources.h"

namespace echelon::data {

/// The files of a folder that are taken for an empty options.include; for kBySuffix those of every format.
[[nodiscard]] std::vector<std::string> default_include(TextFormat format);

/// What a file's name says, .gz or .zst behind it left out; kBySuffix: nothing.
[[nodiscard]] TextFormat format_of(const std::filesystem::path& file);

/// `options` with what they leave to the sources: the format, where it goes by the files' suffixes, and what
/// becomes of bad records. A file whose name says nothing is text. Throws Error(kUsage) when the files are of
/// more than one format.
[[nodiscard]] PrepareOptions settle_format(const PrepareOptions& options,
                                           const std::vector<SourceFile>& files);

/// One line for the user: how many files are read as what, and why.
[[nodiscard]] std::string describe_format(const PrepareOptions& settled,
                                          const std::vector<SourceFile>& files);

}  // namespace echelon::data
