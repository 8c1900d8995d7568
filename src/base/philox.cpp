#include "base/philox.h"

#include <cmath>

namespace echelon {

std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                        std::uint64_t counter_high) {
  std::array<std::uint32_t, 4> c{
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  const auto words = philox4x32(seed, hash, name.size());
  return (std::uint64_t{words[1]} << 32) | words[0];
}

float normal_at(std::uint64_t key, std::uint64_t index) {
  const auto words = philox4x32(key, index >> 1, 0);
  // +1 keeps the logarithm's argument above zero. Double precision: identical on every machine with IEEE libm
  // results rounded to float, whatever vector width the compiler picks.
  const double u = (static_cast<double>(words[0]) + 1.0) * 0x1p-32;
  const double angle = 6.283185307179586 * static_cast<double>(words[1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return static_cast<float>(radius * ((index & 1) == 0 ? std::cos(angle) : std::sin(angle)));
}

float uniform_at(std::uint64_t key, std::uint64_t index) {
  return static_cast<float>(philox4x32(key, index, 1)[0] >> 8) * 0x1p-24F;
}

}  // namespace echelon
