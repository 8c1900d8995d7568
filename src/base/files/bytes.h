#pragma once
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

/// Fields of files, at fixed places of their bytes.
namespace echelon {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "files are little-endian; this code copies memory as it is");

/// The value at `at`; the caller has checked that it lies inside.
template <class T>
requires std::is_trivially_copyable_v<T>
[[nodiscard]] T get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
requires std::is_trivially_copyable_v<T>
void put(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

[[nodiscard]] inline std::string get_text(std::span<const std::byte> bytes, std::size_t at,
                                          std::size_t size) {
  std::string text(size, '\0');
  if (size != 0) std::memcpy(text.data(), bytes.data() + at, size);
  return text;
}

inline void put_text(std::span<std::byte> bytes, std::size_t at, const std::string& text) {
  if (!text.empty()) std::memcpy(bytes.data() + at, text.data(), text.size());
}

}  // namespace echelon
