#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/prepare/prepare.h"

namespace echelon::data {

/// One input file as it was when it was listed.
struct SourceFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;                      ///< since 1970
  std::pair<std::uint64_t, std::uint64_t> identity;  ///< device and inode: the same under every name
};

struct Sources {
  std::vector<SourceFile> files;
  std::uint64_t duplicates = 0;  ///< names left out, because their file has another one in `files`
  std::string remark;            ///< of .json files of folders that are left out; empty: none
};

/// The files of `options.sources`, sorted by path, each once even when links give it several. A folder gives
/// its files that match options.include (by name, or by path below the folder when the pattern has a '/'),
/// without hidden entries, linked folders and options.leave_out; a file named by itself is always taken.
/// Throws Error(kData): missing or unreadable source, a link of a folder that leads nowhere, nothing found.
[[nodiscard]] Sources list_sources(const PrepareOptions& options);

}  // namespace echelon::data
