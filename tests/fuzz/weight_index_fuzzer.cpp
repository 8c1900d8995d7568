// Any bytes as model.safetensors.index.json: what is accepted leads nowhere but into its own folder.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/format/names.h"
#include "checkpoint/format/weight_index.h"
#include "fuzz/refused.h"

namespace {

using namespace echelon::checkpoint;  // NOLINT

bool stays(const std::string& file) {
  return !file.empty() && file[0] != '.' &&
         file.find_first_of(std::string("/\\\n\0", 4)) == std::string::npos;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"metadata":{"total_size":1200,"total_parameters":300},"weight_map":{)"
      R"("lm_head.weight":"model-00002-of-00002.safetensors","model.norm.weight":"model-00001-of-00002.safetensors"}})",
      R"({"metadata":{"total_size":0},"weight_map":{"a":"../a.safetensors","b\u0000":"/b.safetensors"}})"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return text_used_or_refused(echelon::Code::kCheckpoint, data, size, [](const std::string& text) {
    const WeightIndex index = parse_weight_index(text, "index");
    for (const auto& [tensor, file] : index.files) {
      if (!stays(file) || !tensor_name_problem(tensor).empty()) std::abort();
    }
  });
}
