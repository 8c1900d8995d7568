#include "base/philox.h"

#include <cmath>

namespace echelon {

std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  const auto words = philox4x32(seed, hash, name.size());
  return (std::uint64_t{words[1]} << 32) | words[0];
}

float normal_at(std::uint64_t key, std::uint64_t index) {
  const auto words = philox4x32(key, index >> 1, 0);
  // +1 keeps the logarithm's argument above zero. In double and then rounded to float, so that last-bit
  // differences between math libraries almost never reach the result.
  const double u = (static_cast<double>(words[0]) + 1.0) * 0x1p-32;
  const double angle = 6.283185307179586 * static_cast<double>(words[1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return static_cast<float>(radius * ((index & 1) == 0 ? std::cos(angle) : std::sin(angle)));
}

float uniform_at(std::uint64_t key, std::uint64_t index) {
  // The second counter word is 1 here and 0 for normals, so both may use one key. 24 bits: every multiple
  // of 2^-24 below 1 is a float, so nothing rounds up to 1.
  return static_cast<float>(philox4x32(key, index, 1)[0] >> 8) * 0x1p-24F;
}

}  // namespace echelon
