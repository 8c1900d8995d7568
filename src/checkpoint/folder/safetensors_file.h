#pragma once
#include <vector>

#include "base/files/fs.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/safetensors_header.h"

namespace echelon::checkpoint {

/// Reads and parses the header of an open .safetensors file. Throws Error(kCheckpoint) naming `path`.
[[nodiscard]] std::vector<SafetensorsTensor> load_safetensors_header(const InputFile& file,
                                                                     const fs::Path& path);

}  // namespace echelon::checkpoint
