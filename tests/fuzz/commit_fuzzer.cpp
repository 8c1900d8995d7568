// Any bytes as COMMIT: refused with an Error, or accepted and then spelled exactly as this version spells it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "fuzz/refused.h"

using namespace echelon::checkpoint;  // NOLINT

std::vector<std::string> fuzz_seeds() {
  return {commit_text({.step = 1200, .save_id = "a1b2c3d4", .manifest_bytes = 9, .manifest_crc = 3}),
          commit_text(
              {.step = 0, .save_id = "00000000", .manifest_bytes = kMaxManifestBytes, .manifest_crc = ~0U})};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return text_used_or_refused(echelon::Code::kCheckpoint, data, size, [](const std::string& text) {
    const Commit commit = parse_commit(text, "commit");
    const Commit again = parse_commit(commit_text(commit), "again");
    if (again.step != commit.step || again.save_id != commit.save_id ||
        again.manifest_bytes != commit.manifest_bytes || again.manifest_crc != commit.manifest_crc ||
        again.format_minor != commit.format_minor)
      std::abort();
    // A later minor version may have keys that this one drops; ours may not.
    if (commit.format_minor == echelon::checkpoint::kFormatMinor && commit_text(commit).size() > text.size())
      std::abort();
  });
}
