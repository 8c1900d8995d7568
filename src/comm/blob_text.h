#pragma once
#include <span>
#include <string>

#include "bootstrap/job.h"

namespace echelon {

/// Text on its way through Communicator::gather_blobs.
[[nodiscard]] inline Blob to_blob(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
[[nodiscard]] inline std::string to_text(const Blob& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

}  // namespace echelon
