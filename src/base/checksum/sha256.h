#pragma once
#include <array>
#include <cstddef>
#include <span>

namespace echelon {

using Sha256 = std::array<std::byte, 32>;

/// SHA-256 (FIPS 180-4). For short messages: it copies them, and is an order of magnitude slower than a CRC.
[[nodiscard]] Sha256 sha256(std::span<const std::byte> message);

/// HMAC-SHA256 (RFC 2104): who does not know `key` can neither make it for a message nor find the key in it.
[[nodiscard]] Sha256 hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Takes the same time wherever they differ, so that nobody can guess a MAC byte by byte.
[[nodiscard]] bool same_mac(const Sha256& a, const Sha256& b);

}  // namespace echelon
