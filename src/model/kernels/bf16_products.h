#pragma once
#include <cstdint>
#include <string_view>

namespace echelon::kernels {

/// The words that an x86 processor and its operating system report.
struct ProcessorWords {
  bool avx512 = false;             ///< F, BW, DQ and VL, and the system keeps their registers
  std::uint32_t leaf7_edx = 0;     ///< CPUID 7, subleaf 0
  std::uint32_t leaf7_1_eax = 0;   ///< CPUID 7, subleaf 1; 0 where there is none
  std::uint64_t usable_state = 0;  ///< register states that the system lets a process use, as in XCR0
};
/// The words of this machine, within the limit that the user sets for oneDNN (ONEDNN_MAX_CPU_ISA): Echelon's
/// products use no instruction that oneDNN's may not use.
[[nodiscard]] const ProcessorWords& processor();
/// Returns the part of `words` within a limit of this name; unknown names limit nothing, as in oneDNN.
[[nodiscard]] ProcessorWords limited(ProcessorWords words, std::string_view limit);
/// For tests: processor() returns `words`, which outlive their use; null: this machine again. Call it before
/// any thread computes.
void imitate_processor(const ProcessorWords* words);

/// The instructions that multiply bf16 matrices faster than fp32 ones.
enum class Bf16Products : std::uint8_t {
  kNone,    ///< bf16 is computed by way of fp32
  kAvx512,  ///< dot products of AVX512-BF16
  kAmx,     ///< tiles
};
[[nodiscard]] Bf16Products bf16_products(const ProcessorWords& words);
/// The answer for the words of processor().
[[nodiscard]] Bf16Products bf16_products();
/// True if processor() has AVX512-BF16, with or without tiles.
[[nodiscard]] bool has_avx512_bf16();
/// True if processor() has instructions for products of fp16 (AVX512-FP16, AMX-FP16).
[[nodiscard]] bool has_fp16_products();

}  // namespace echelon::kernels
