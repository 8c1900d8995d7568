// Any bytes as MANIFEST.json: refused with an Error, or accepted and then the same when written and read
// again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "fuzz/refused.h"

using namespace echelon::checkpoint;  // NOLINT

std::vector<std::string> fuzz_seeds() {
  const Manifest manifest{
      .step = 1200,
      .save_id = "a1b2c3d4",
      .shards = {{"shard-00000-of-00002.h5", 20480, 0x74848A10}, {"shard-00001-of-00002.h5", 8192, 1}},
      .tensors = {{"model/w", echelon::DType::kBF16, {64, 7}}, {"optim/step", echelon::DType::kI64, {}}},
      .attachments = {{"config.json", {.bytes = 49, .crc = 2}}},
      .trainer_state = R"({"lr":0.001,"tokens":123,"list":[true,null,-5,"x"]})",
      .versions = {{"hdf5", "1.10.8"}}};
  return {manifest_text(manifest)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return text_used_or_refused(echelon::Code::kCheckpoint, data, size, [](const std::string& text) {
    const std::string written = manifest_text(parse_manifest(text, "manifest"));
    if (manifest_text(parse_manifest(written, "again")) != written) std::abort();
  });
}
