// Texts for the tests of checksums.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <string>

namespace echelon {

inline std::span<const std::byte> view(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline std::string random_text(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

}  // namespace echelon
