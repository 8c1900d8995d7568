#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace echelon {

/// CRC-64/NVME, as in NVM Express and in S3's object checksums: crc64("123456789") == 0xAE8B14860A799888.
/// `crc` continues an earlier result.
[[nodiscard]] std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc = 0);

/// crc64() by table lookup: used on other processors, and as the reference in tests.
[[nodiscard]] std::uint64_t crc64_portable(std::span<const std::byte> bytes, std::uint64_t crc = 0);

/// CRC of A+B from crc(A), crc(B) and the length of B.
[[nodiscard]] std::uint64_t crc64_combine(std::uint64_t crc_a, std::uint64_t crc_b, std::uint64_t length_b);

}  // namespace echelon
