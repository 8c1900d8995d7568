#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"
#include "data/prepare/rows.h"
#include "data/prepare/sources.h"

namespace echelon::data {

/// A column of a Parquet file to read.
struct WantedColumn {
  std::string name;
  std::string option;     ///< names the column on the command line
  bool may_lack = false;  ///< files without it are read too
};

/// What the plugin libechelon_parquet.so offers, under the name kOpenParquet: the rows of the file that `fd`
/// has open, each a JSON object of the wanted columns. `fd` is the caller's and stays open for as long as the
/// rows are used. Throws Error(kData) naming file and row group: not Parquet, damaged, no such column, a
/// column of a type that JSON does not have.
using OpenParquet = Rows*(int fd, const SourceFile& file, const std::vector<WantedColumn>& columns);
inline constexpr const char* kOpenParquet = "echelon_open_parquet";

/// The rows of a Parquet file with the columns that `options` name. Throws Error(kData) as OpenParquet does,
/// and for a file that has another size than when it was listed; Error(kEnvironment) where the plugin, or the
/// libraries of pyarrow that it needs, cannot be loaded.
[[nodiscard]] std::unique_ptr<Rows> open_parquet(const SourceFile& file, const PrepareOptions& options);

/// Throws Error(kEnvironment) as open_parquet() does where Parquet cannot be read on this machine.
void require_parquet();

}  // namespace echelon::data
