#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace echelon {

/// CRC-32C (Castagnoli), the iSCSI/ext4 polynomial: crc32c("123456789") == 0xE3069283. Uses the SSE4.2
/// instruction where the processor has it. `crc` continues an earlier result.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
[[nodiscard]] inline std::uint32_t crc32c(std::string_view text, std::uint32_t crc = 0) {
  return crc32c(std::as_bytes(std::span(text)), crc);
}

/// Copies `from` to `to` (same size, no overlap) and returns the CRC of the copied bytes: one pass over
/// memory.
[[nodiscard]] std::uint32_t crc32c_copy(std::span<std::byte> to, std::span<const std::byte> from,
                                        std::uint32_t crc = 0);

/// crc32c() without the special instruction: used on other processors, and as the reference in tests.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc = 0);

/// CRC of A+B from crc(A), crc(B) and the length of B.
[[nodiscard]] std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b);

}  // namespace echelon
