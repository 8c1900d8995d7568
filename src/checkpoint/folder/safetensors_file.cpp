#include "checkpoint/folder/safetensors_file.h"

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"
#include "base/str.h"

namespace echelon::checkpoint {

std::vector<SafetensorsTensor> load_safetensors_header(const InputFile& file, const fs::Path& path) {
  const std::string what = str('\'', path.string(), '\'');
  std::array<std::byte, kSafetensorsLength> length{};
  if (file.bytes >= length.size()) fs::read_at(file.fd, 0, length, Code::kCheckpoint, path);
  std::string json(safetensors_header_bytes(length, file.bytes, what), '\0');
  fs::read_at(file.fd, length.size(), std::as_writable_bytes(std::span(json)), Code::kCheckpoint, path);
  return parse_safetensors_header(json, file.bytes, what);
}

}  // namespace echelon::checkpoint
