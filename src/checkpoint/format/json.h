#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "checkpoint/format/tensor.h"

/// Strict JSON for files that decide whether a checkpoint counts, and how they list tensors. Not for public
/// headers.
namespace echelon::checkpoint {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 32;
inline constexpr std::size_t kMaxTensorsListed = 1'000'000;

/// parse_foreign_json() with these limits. `what` names the source in errors. Throws Error(kCheckpoint).
[[nodiscard]] Json parse_json(std::string_view text, const std::string& what);

/// Sorted keys, two-space indent, newline at the end: one value has one spelling.
[[nodiscard]] std::string canonical_text(const Json& value);

/// Member `key` of `object`; each throws Error(kCheckpoint) naming `what` and the key when it is absent or of
/// another kind. Unsigned numbers must be plain whole numbers <= `max`.
[[nodiscard]] const Json& member(const Json& object, const char* key, const std::string& what);
[[nodiscard]] std::uint64_t number(const Json& object, const char* key, std::uint64_t max,
                                   const std::string& what);
[[nodiscard]] std::string text(const Json& object, const char* key, const std::string& what);
/// A list of at most `max`.
[[nodiscard]] const Json& list_of(const Json& object, const char* key, std::size_t max,
                                  const std::string& what);
/// The id of a save: eight lower-case hex digits.
[[nodiscard]] std::string save_id_of(const Json& object, const char* key, const std::string& what);
/// A checksum: eight lower-case hex digits.
[[nodiscard]] std::uint32_t checksum(const Json& object, const char* key, const std::string& what);
[[nodiscard]] std::string checksum_text(std::uint32_t crc);
/// A fingerprint: sixteen lower-case hex digits.
[[nodiscard]] std::uint64_t fingerprint(const Json& object, const char* key, const std::string& what);
[[nodiscard]] std::string fingerprint_text(std::uint64_t crc);

/// {"dtype", "name", "shape"}
[[nodiscard]] Json tensor_json(const TensorInfo& tensor);
/// Checks name, type and each dimension, but not the product of the dimensions (check_tensors()). Throws
/// Error(kCheckpoint) naming `what`.
[[nodiscard]] TensorInfo parse_tensor(const Json& json, const std::string& what);

}  // namespace echelon::checkpoint
