#include "model/kernels/bf16_products.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "model/kernels/product.h"

namespace echelon::kernels {
namespace {

constexpr std::uint64_t kTiles = 0x60000;
constexpr std::uint32_t kAmx = 0x01400000;

TEST(Bf16Products, AreWhatTheFlagsOfKnownProcessorsSay) {
  // Sapphire Rapids: AMX-BF16, AMX-TILE, AMX-INT8; AVX-VNNI and AVX512-BF16.
  EXPECT_EQ(bf16_products({true, 0x03C00000, 0x00001C30, 0x602E7}), Bf16Products::kAmx);
  // Zen 4: AVX512-BF16, no AMX. Cooper Lake: the same.
  EXPECT_EQ(bf16_products({true, 0x10000010, 0x00000020, 0xE7}), Bf16Products::kAvx512);
  // Cascade Lake and Skylake: AVX512 without bf16.
  EXPECT_EQ(bf16_products({true, 0xAC000400, 0, 0xE7}), Bf16Products::kNone);
  // Alder Lake: AVX-VNNI only. Haswell: nothing.
  EXPECT_EQ(bf16_products({false, 0x98C10, 0x00000010, 0x7}), Bf16Products::kNone);
  EXPECT_EQ(bf16_products({}), Bf16Products::kNone);
}

TEST(Bf16Products, AreNotTilesThatTheSystemKeepsBack) {
  EXPECT_EQ(bf16_products({true, kAmx, 0x20, 0xE7}), Bf16Products::kAvx512) << "a kernel before 5.16";
  EXPECT_EQ(bf16_products({true, kAmx, 0x20, 0x200E7}), Bf16Products::kAvx512) << "no tile data";
  EXPECT_EQ(bf16_products({true, kAmx, 0, 0xE7}), Bf16Products::kNone);
  EXPECT_EQ(bf16_products({true, 0x01000000, 0x20, kTiles}), Bf16Products::kAvx512) << "tiles of integers";
  EXPECT_EQ(bf16_products({false, kAmx, 0x20, kTiles}), Bf16Products::kNone) << "AVX512 switched off";
}

TEST(Bf16Products, AreWithinTheLimitThatOneDnnHas) {
  const ProcessorWords sapphire_rapids{true, 0x03C00000, 0x00201C30, 0x602E7};
  const auto most = [&](const char* limit) { return bf16_products(limited(sapphire_rapids, limit)); };
  for (const char* none : {"", "ALL", "default", "avx512_core_amx", "AVX512_CORE_AMX_FP16", "no such name"})
    EXPECT_EQ(most(none), Bf16Products::kAmx) << none;
  for (const char* dots : {"AVX512_CORE_BF16", "avx512_core_fp16"})
    EXPECT_EQ(most(dots), Bf16Products::kAvx512) << dots;
  for (const char* old : {"SSE41", "avx2", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"})
    EXPECT_EQ(most(old), Bf16Products::kNone) << old;
  EXPECT_FALSE(limited(sapphire_rapids, "AVX2_VNNI_2").avx512);
  EXPECT_TRUE(limited(sapphire_rapids, "AVX512_CORE").avx512);
}

TEST(Bf16Products, OfFp16NeedInstructionsOfTheirOwn) {
  const auto has = [](const ProcessorWords& words) {
    imitate_processor(&words);
    const bool result = has_fp16_products();
    imitate_processor(nullptr);
    return result;
  };
  const ProcessorWords sapphire_rapids{true, 0x03C00000, 0x00001C30, 0x602E7};
  EXPECT_TRUE(has(sapphire_rapids));
  EXPECT_FALSE(has(limited(sapphire_rapids, "AVX512_CORE_BF16")));
  EXPECT_FALSE(has({true, 0x10000010, 0x00000020, 0xE7})) << "Zen 4";
  EXPECT_FALSE(has({}));
}

TEST(Bf16Products, OfThisMachineAreThoseThatItsKernelLists) {
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  while (std::getline(file, flags) && !flags.starts_with("flags")) {
  }
  const auto listed = [words = " " + flags + " "](const std::string& flag) {
    return words.find(" " + flag + " ") != std::string::npos;
  };
  const Bf16Products expected = listed("amx_bf16") && listed("amx_tile") ? Bf16Products::kAmx
                                : listed("avx512_bf16")                  ? Bf16Products::kAvx512
                                                                         : Bf16Products::kNone;
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "ONEDNN_MAX_CPU_ISA is set";
  EXPECT_EQ(bf16_products(), expected);
  EXPECT_EQ(has_avx512_bf16(), listed("avx512_bf16"));
  EXPECT_EQ(product_kernel() != nullptr, listed("avx512_bf16"));
}

}  // namespace
}  // namespace echelon::kernels
