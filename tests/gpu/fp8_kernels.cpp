#include <cmath>
#include <limits>
#include <tuple>

#include "gpu/device.h"
#include "model/cuda/gpu_kernels.h"
#include "unit/model/reference.h"

// The casts to eight bits beside the definition of the types, which those of PyTorch are compared with too
// (unit/model/fp8_test.cpp).
namespace echelon::test {
namespace {

using gpu::Fp8;
using kernels::Bf16;
using Bytes = std::vector<unsigned char>;

Fp8Format format_of(Fp8 type) {
  return type == Fp8::kE5m2 ? kE5m2 : kE4m3;
}

/// What eight bits stand for.
double value_of(Fp8 type, unsigned char bits) {
  const Fp8Format format = format_of(type);
  const int mantissa = bits & ((1 << format.mantissa) - 1);
  const int exponent = (bits & 0x7F) >> format.mantissa;
  const int normal = exponent == 0 ? 0 : 1;
  const double magnitude = std::ldexp(mantissa + (normal << format.mantissa),
                                      std::max(exponent, 1) - format.bias - format.mantissa);
  if (magnitude > format.largest) return NAN;
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

void expect_nearest(Fp8 type, unsigned char bits, float value) {
  const double found = value_of(type, bits);
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(found));
    return;
  }
  ASSERT_EQ(found, nearest(format_of(type), static_cast<double>(value))) << value;
  ASSERT_EQ(std::signbit(found), std::signbit(value)) << value;
}

class GpuFp8 : public ::testing::TestWithParam<Fp8> {
 protected:
  void SetUp() override { ECHELON_NEEDS_GPU(); }

  static std::vector<float> scale_of(const std::vector<Bf16>& values, std::size_t shift) {
    const OnDevice<Bf16> in(values, shift);
    const OnDevice<std::uint32_t> partial(std::vector<std::uint32_t>(gpu::kFp8Partials, 0x7FFFFFFF));
    const OnDevice<float> scale(std::vector<float>(2, 7.0F));
    const auto n = static_cast<std::int64_t>(values.size());
    EXPECT_EQ(gpu::fp8_scale(in.data(), n, GetParam(), partial.data(), scale.data(), nullptr), cudaSuccess);
    return scale.values();
  }
};

INSTANTIATE_TEST_SUITE_P(Types, GpuFp8, ::testing::Values(Fp8::kE4m3, Fp8::kE5m2), [](const auto& type) {
  return std::string(type.param == Fp8::kE5m2 ? "e5m2" : "e4m3");
});

TEST_P(GpuFp8, EveryBf16BecomesTheNearestValue) {
  constexpr std::int64_t kAll = 65536;
  std::vector<Bf16> values(kAll);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<std::uint16_t>(i);
  const OnDevice<Bf16> in(values);
  for (const float scale : {1.0F, 0.37F, 4.48e14F, 1.3e-36F}) {
    const OnDevice<float> scales(std::vector<float>{scale});
    const OnDevice<unsigned char> out((Bytes(kAll)));
    ASSERT_EQ(
        gpu::fp8_cast(in.data(), scales.data(), GetParam(), out.data(), nullptr, kAll / 16, 16, nullptr),
        cudaSuccess);
    const Bytes found = out.values();
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_nearest(GetParam(), found[i], to_float(values[i]) * scale);
  }
}

TEST_P(GpuFp8, OrdersAreThoseOfTheMatrixAndZerosFillTheRows) {
  for (const auto& [rows, n, shift] : std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>>{
           {1, 16, 0}, {48, 64, 0}, {29, 80, 1}, {128, 144, 0}, {259, 208, 0}}) {
    const auto values = random_values<Bf16>(rows * n, 1, 40.0);
    const std::int64_t width = (rows + 15) / 16 * 16;
    const OnDevice<Bf16> in(values, shift);
    const OnDevice<float> scale(std::vector<float>{1.5F});
    for (const int wanted : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << n << " + " << shift << ", orders " << wanted);
      const bool has_plain = wanted != 2;
      const bool has_turned = wanted != 1;
      const OnDevice<unsigned char> plain(Bytes(static_cast<std::size_t>(rows * n), 0x11));
      const OnDevice<unsigned char> turned(Bytes(static_cast<std::size_t>(width * n), 0x11));
      ASSERT_EQ(gpu::fp8_cast(in.data(), scale.data(), GetParam(), has_plain ? plain.data() : nullptr,
                              has_turned ? turned.data() : nullptr, rows, n, nullptr),
                cudaSuccess);
      const Bytes by_row = plain.values();
      const Bytes by_column = turned.values();
      for (std::int64_t c = 0; c < n; ++c) {
        for (std::int64_t r = 0; r < width; ++r) {
          const unsigned char across = by_column[static_cast<std::size_t>(c * width + r)];
          if (r >= rows) {
            ASSERT_EQ(across, has_turned ? 0 : 0x11);
            continue;
          }
          const auto i = static_cast<std::size_t>(r * n + c);
          const float value = to_float(values[i]) * 1.5F;
          if (has_plain) expect_nearest(GetParam(), by_row[i], value);
          if (has_turned) expect_nearest(GetParam(), across, value);
        }
      }
    }
  }
}

TEST(GpuFp8Transpose, PutsEveryByteInItsPlace) {
  ECHELON_NEEDS_GPU();
  for (const auto& [rows, n] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{16, 16}, {48, 80}, {128, 144}, {272, 208}}) {
    Bytes values(static_cast<std::size_t>(rows * n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned char>(i * 37 + i / 251);
    const OnDevice<unsigned char> plain(values);
    const OnDevice<unsigned char> turned(Bytes(values.size(), 0x11));
    ASSERT_EQ(gpu::fp8_transpose(plain.data(), turned.data(), rows, n, nullptr), cudaSuccess);
    const Bytes found = turned.values();
    for (std::int64_t c = 0; c < n; ++c) {
      for (std::int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(found[static_cast<std::size_t>(c * rows + r)], values[static_cast<std::size_t>(r * n + c)]);
    }
  }
  const OnDevice<unsigned char> small(Bytes(16 * 16));
  EXPECT_EQ(gpu::fp8_transpose(small.data(), small.data(), 8, 16, nullptr), cudaErrorInvalidValue);
}

TEST_P(GpuFp8, ScaleMakesTheLargestMagnitudeTheLargestValue) {
  const double largest = format_of(GetParam()).largest;
  for (const std::size_t n : {1U, 7U, 5000U, 20'011U}) {
    for (const std::size_t shift : {0U, 1U}) {
      for (const double amax : {0.0, 1e-13, 3.1, -1e30}) {
        for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
          auto values =
              random_values<Bf16>(static_cast<std::int64_t>(n), 1, std::max(std::abs(amax) / 10, 1e-20));
          assign(values[at], amax);
          const double found = std::abs(static_cast<double>(to_float(values[at])));
          const auto expected = static_cast<float>(largest / std::max(found, 1e-12));
          ASSERT_EQ(scale_of(values, shift), (std::vector<float>{expected, 1 / expected}))
              << n << ' ' << amax;
        }
      }
    }
  }
}

TEST_P(GpuFp8, ScaleShowsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {kInfinity, -kInfinity}) {
    std::vector<Bf16> values = random_values<Bf16>(5000, 1);
    assign(values[4321], wrong);
    EXPECT_EQ(scale_of(values, 0), (std::vector<float>{0, kInfinity}));
    for (const float nan : {NAN, -NAN}) {
      assign(values[17], nan);
      const std::vector<float> found = scale_of(values, 0);
      EXPECT_TRUE(std::isnan(found[0]) && std::isnan(found[1])) << found[0];
    }
  }
}

TEST_P(GpuFp8, OtherSizesAndAddressesAreRefused) {
  const OnDevice<Bf16> in(std::vector<Bf16>(16 * 16));
  const OnDevice<float> scale(std::vector<float>{1.0F});
  const OnDevice<unsigned char> out(Bytes(16 * 16), 1);
  EXPECT_EQ(gpu::fp8_cast(in.data(), scale.data(), GetParam(), out.data(), nullptr, 1, 16, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(gpu::fp8_cast(in.data(), scale.data(), GetParam(), nullptr, out.data() - 1, 1, 8, nullptr),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace echelon::test
