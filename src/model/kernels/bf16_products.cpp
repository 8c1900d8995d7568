#include "model/kernels/bf16_products.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace echelon::kernels {
namespace {

constexpr std::uint32_t kAmxBf16 = 1U << 22;     // leaf 7, EDX
constexpr std::uint32_t kAmxTile = 1U << 24;     // leaf 7, EDX
constexpr std::uint32_t kAvx512Bf16 = 1U << 5;   // leaf 7 subleaf 1, EAX
constexpr std::uint64_t kTileStates = 3U << 17;  // tile configuration and tile data

bool has_avx512_bf16(const ProcessorWords& words) {
  return words.avx512 && (words.leaf7_1_eax & kAvx512Bf16) != 0;
}

ProcessorWords read_words() {
  ProcessorWords words;
#if defined(__x86_64__) && defined(__linux__)
  __builtin_cpu_init();
  words.avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                 __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return words;
  words.leaf7_edx = edx;
  const unsigned last_subleaf = eax;
  if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) words.leaf7_1_eax = eax;
  // AMX also needs the operating system: Linux must support the tile state, which a process then requests
  // (oneDNN does).
  constexpr int kGetSupportedState = 0x1021;  // ARCH_GET_XCOMP_SUPP, from Linux 5.16
  std::uint64_t state = 0;
  if (syscall(SYS_arch_prctl, kGetSupportedState, &state) == 0) words.usable_state = state;
#endif
  return words;
}

}  // namespace

Bf16Products bf16_products(const ProcessorWords& words) {
  if (!words.avx512) return Bf16Products::kNone;  // both extensions need AVX-512
  const bool tiles = (words.leaf7_edx & kAmxBf16) != 0 && (words.leaf7_edx & kAmxTile) != 0;
  if (tiles && (words.usable_state & kTileStates) == kTileStates) return Bf16Products::kAmx;
  return has_avx512_bf16(words) ? Bf16Products::kAvx512 : Bf16Products::kNone;
}

Bf16Products bf16_products() {
  static const Bf16Products mine = bf16_products(read_words());
  return mine;
}

bool has_avx512_bf16() {
  static const bool mine = has_avx512_bf16(read_words());
  return mine;
}

}  // namespace echelon::kernels
