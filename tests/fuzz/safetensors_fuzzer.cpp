// Any bytes as the front of a .safetensors file. What is accepted must keep every promise that reading relies
// on: ranges of the right size, side by side from the header to the end of the file.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/format/geometry.h"
#include "checkpoint/format/safetensors_header.h"
#include "fuzz/refused.h"

namespace {

using namespace echelon::checkpoint;  // NOLINT

void check_promises(const std::vector<SafetensorsTensor>& tensors, std::uint64_t begin, std::uint64_t end) {
  std::set<std::string> names;
  std::uint64_t at = begin;
  for (const SafetensorsTensor& tensor : tensors) {
    if (!names.insert(tensor.info.name).second) std::abort();
    if (tensor.offset != at || tensor.bytes > end - at) std::abort();
    if (tensor.bytes != element_count(tensor.info) * echelon::size_of(tensor.info.dtype)) std::abort();
    at += tensor.bytes;
  }
  if (at != end) std::abort();
}

std::string file(const std::string& json, std::uint64_t data_bytes) {
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json +
         std::string(data_bytes, 'x');
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      file(
          R"({"__metadata__":{"format":"pt"},"model.norm.weight":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
          R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[12,20]},"c":{"dtype":"I64","shape":[],"data_offsets":[20,28]}}   )",
          28),
      file(
          R"({"a":{"dtype":"U8","shape":[0,4],"data_offsets":[0,0],"x":[{"y":[1e5,-3,null,true]}]},"\u0061b":{"dtype":"F16","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,2]}})",
          2),
      file("{}", 0)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  used_or_refused(echelon::Code::kCheckpoint, [&] {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const std::uint64_t header =
        safetensors_header_bytes(bytes.first(std::min(size, kSafetensorsLength)), size, "file");
    const std::string json(reinterpret_cast<const char*>(data) + kSafetensorsLength, header);
    check_promises(parse_safetensors_header(json, size, "file"), kSafetensorsLength + header, size);
  });
  return 0;
}
