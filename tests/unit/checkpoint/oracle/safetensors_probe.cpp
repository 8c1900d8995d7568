// safetensors_probe: reads files from standard input, each as its length (8 bytes) and its bytes, and prints
// what our header parser says of each: one line of JSON.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "checkpoint/format/safetensors_header.h"

namespace {

using namespace echelon::checkpoint;  // NOLINT

nlohmann::json verdict(const std::string& file) {
  try {
    const auto bytes = std::as_bytes(std::span(file));
    const std::uint64_t header =
        safetensors_header_bytes(bytes.first(std::min(file.size(), kSafetensorsLength)), file.size(), "file");
    nlohmann::json tensors = nlohmann::json::array();
    for (const auto& tensor : parse_safetensors_header(
             std::string_view(file).substr(kSafetensorsLength, header), file.size(), "file")) {
      tensors.push_back({tensor.info.name,
                         tensor.other_type.empty() ? safetensors_name(tensor.info.dtype) : tensor.other_type,
                         tensor.info.shape, tensor.offset, tensor.bytes});
    }
    return {{"tensors", tensors}};
  } catch (const echelon::Error& e) {
    return {{"problem", e.what()}};
  }
}

}  // namespace

int main() {
  std::uint64_t size = 0;
  while (std::cin.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    std::string file(size, '\0');
    if (!std::cin.read(file.data(), static_cast<std::streamsize>(size))) return 2;
    std::cout << verdict(file).dump() << '\n';
  }
  return 0;
}
