#include "base/normals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/philox.h"
#include "base/vector_clones.h"

namespace echelon {
namespace {

/// Pairs at a time; their intermediate values stay in the first-level cache.
constexpr std::size_t kPairs = 256;

struct Block {
  std::array<float, 2 * kPairs> values;
  std::array<std::uint32_t, kPairs> doubtful;  ///< not 0: libm may round it to another float
  std::uint32_t some_doubtful;                 ///< not 0: some are
};

/// ln(u) of u in [2^-32, 1], to less than an ulp: u = 2^e m with m around 1, and fdlibm's series for ln(m)
/// (e_log.c). Without branches or calls, so that the loop over it vectorizes, which std::log does not.
[[gnu::always_inline]] inline double log_of(double u) {
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const auto bits = std::bit_cast<std::uint64_t>(u);
  // Exponent so that m lies in [sqrt(1/2), sqrt(2)).
  const std::uint64_t shifted = bits + (0x3FF0000000000000ULL - 0x3FE6A09E667F3BCDULL);
  const auto biased = static_cast<std::uint32_t>(shifted >> 52);
  const double e = static_cast<double>(static_cast<std::int32_t>(biased)) - 1023.0;
  const double m = std::bit_cast<double>((shifted & 0x000FFFFFFFFFFFFFULL) + 0x3FE6A09E667F3BCDULL);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even =
      w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f;
  return e * kLn2High - ((half - (s * (half + (even + odd)) + e * kLn2Low)) - f);
}

/// fdlibm's series on [-pi/4, pi/4] (k_sin.c, k_cos.c).
[[gnu::always_inline]] inline double sine_of(double x) {
  const double z = x * x;
  const double r = 8.33333333332248946124e-03 +
                   z * (-1.98412698298579493134e-04 +
                        z * (2.75573137070700676789e-06 +
                             z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  return x + z * x * (-1.66666666666666324348e-01 + z * r);
}
[[gnu::always_inline]] inline double cosine_of(double x) {
  const double z = x * x;
  const double r = z * (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 +
                             z * (2.48015872894767294178e-05 +
                                  z * (-2.75573143513906633035e-07 +
                                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half = 0.5 * z;
  const double whole = 1.0 - half;
  return whole + ((1.0 - whole - half) + z * r);
}

/// True if an error of some ulps (of double) could round `value` to another float. Such values are computed
/// again by normal_at(), so all bits are its.
[[gnu::always_inline]] inline bool near_a_border(double value) {
  constexpr double kError = 0x1p-46;
  return static_cast<float>(value * (1 - kError)) != static_cast<float>(value * (1 + kError));
}

ECHELON_VECTOR_CLONES void compute(std::uint64_t key, std::uint64_t first_pair, Block& block) {
  std::uint32_t some = 0;
  std::array<std::uint32_t, kPairs> words0;
  std::array<std::uint32_t, kPairs> words1;
  for (std::size_t i = 0; i < kPairs; ++i) {
    const auto words = philox4x32(key, first_pair + i, 0);
    words0[i] = words[0];
    words1[i] = words[1];
  }
  for (std::size_t i = 0; i < kPairs; ++i) {
    constexpr double kHalfPiHigh = 1.57079632673412561417e+00;  // its first 33 bits: multiples are exact
    constexpr double kHalfPiLow = 6.07710050650619224932e-11;
    const double u = (static_cast<double>(words0[i]) + 1.0) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * log_of(u));
    const double angle = 6.283185307179586 * static_cast<double>(words1[i]) * 0x1p-32;
    const std::uint32_t quarter = (words1[i] >> 30) + (words1[i] >> 29 & 1U);  // nearest quarter turn, 0 to 4
    const auto turns = static_cast<double>(static_cast<std::int32_t>(quarter));
    const double rest = (angle - turns * kHalfPiHigh) - turns * kHalfPiLow;
    const double sine = sine_of(rest);
    const double cosine = cosine_of(rest);
    const bool swapped = (quarter & 1U) != 0;
    const double c = swapped ? sine : cosine;
    const double s = swapped ? cosine : sine;
    const double even = radius * (((quarter + 1) & 2U) != 0 ? -c : c);
    const double odd = radius * ((quarter & 2U) != 0 ? -s : s);
    block.values[2 * i] = static_cast<float>(even);
    block.values[2 * i + 1] = static_cast<float>(odd);
    // Close to 0 the sine of the reduced angle has lost digits. Elsewhere the error is below what
    // near_a_border() allows for.
    block.doubtful[i] = std::uint32_t{near_a_border(even)} | std::uint32_t{near_a_border(odd)} |
                        std::uint32_t{std::abs(rest) < 1e-6};
    some |= block.doubtful[i];
  }
  block.some_doubtful = some;
}

}  // namespace

void fill_normals(std::uint64_t key, std::uint64_t begin, std::span<float> values) {
  Block block;
  const std::uint64_t end = begin + values.size();
  for (std::uint64_t pair = begin / 2; 2 * pair < end; pair += kPairs) {
    compute(key, pair, block);
    const std::uint64_t from = std::max(begin, 2 * pair);
    const std::uint64_t to = std::min(end, 2 * (pair + kPairs));
    std::copy_n(block.values.begin() + static_cast<std::ptrdiff_t>(from - 2 * pair), to - from,
                values.begin() + static_cast<std::ptrdiff_t>(from - begin));
    if (block.some_doubtful == 0) continue;
    for (std::uint64_t index = from; index < to; ++index) {
      if (block.doubtful[index / 2 - pair] != 0) values[index - begin] = normal_at(key, index);
    }
  }
}

}  // namespace echelon
