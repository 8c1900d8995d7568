#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// Fields of messages in the protobuf wire format (protobuf.dev/programming-guides/encoding).
namespace echelon::metrics::protobuf {

enum Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
[[nodiscard]] std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

[[nodiscard]] inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// What stands before the value of a field.
[[nodiscard]] inline std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | wire);
}

[[nodiscard]] inline std::string varint_field(int field, std::uint64_t value) {
  return key(field, kVarint) + varint(value);
}

/// A text, or a message within a message.
[[nodiscard]] inline std::string bytes_field(int field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

}  // namespace echelon::metrics::protobuf
