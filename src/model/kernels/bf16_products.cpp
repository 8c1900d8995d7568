#include "model/kernels/bf16_products.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace echelon::kernels {
namespace {

constexpr std::uint32_t kAmxBf16 = 1U << 22;     // leaf 7, EDX
constexpr std::uint32_t kAvx512Fp16 = 1U << 23;  // leaf 7, EDX
constexpr std::uint32_t kAmxTile = 1U << 24;     // leaf 7, EDX
constexpr std::uint32_t kAvx512Bf16 = 1U << 5;   // leaf 7 subleaf 1, EAX
constexpr std::uint32_t kAmxFp16 = 1U << 21;     // leaf 7 subleaf 1, EAX
constexpr std::uint64_t kTileStates = 3U << 17;  // tile configuration and tile data

const ProcessorWords* imitated = nullptr;

bool has_avx512_bf16(const ProcessorWords& words) {
  return words.avx512 && (words.leaf7_1_eax & kAvx512Bf16) != 0;
}

bool has_tiles(const ProcessorWords& words) {
  return words.avx512 && (words.leaf7_edx & kAmxTile) != 0 &&
         (words.usable_state & kTileStates) == kTileStates;
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

/// oneDNN's names, in their order.
enum Isa : std::uint8_t { kAvx512Core = 5, kCoreBf16 = 7, kCoreFp16 = 8, kCoreAmx = 9, kCoreAmxFp16 = 10 };
constexpr std::string_view kIsas[] = {"sse41",
                                      "avx",
                                      "avx2",
                                      "avx2_vnni",
                                      "avx2_vnni_2",
                                      "avx512_core",
                                      "avx512_core_vnni",
                                      "avx512_core_bf16",
                                      "avx512_core_fp16",
                                      "avx512_core_amx",
                                      "avx512_core_amx_fp16"};

}  // namespace

ProcessorWords limited(ProcessorWords words, std::string_view limit) {
  const auto* const found = std::find_if(std::begin(kIsas), std::end(kIsas), [&](std::string_view isa) {
    return isa.size() == limit.size() && strncasecmp(isa.data(), limit.data(), isa.size()) == 0;
  });
  const auto most = found - std::begin(kIsas);
  if (most < kAvx512Core) words.avx512 = false;
  if (most < kCoreBf16) words.leaf7_1_eax &= ~kAvx512Bf16;
  if (most < kCoreFp16) words.leaf7_edx &= ~kAvx512Fp16;
  if (most < kCoreAmx) words.usable_state &= ~kTileStates;
  if (most < kCoreAmxFp16) words.leaf7_1_eax &= ~kAmxFp16;
  return words;
}

const ProcessorWords& processor() {
  static const ProcessorWords mine = [] {
    const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
    return limited(read_words(), limit == nullptr ? "" : limit);
  }();
  return imitated != nullptr ? *imitated : mine;
}

void imitate_processor(const ProcessorWords* words) {
  imitated = words;
}

Bf16Products bf16_products(const ProcessorWords& words) {
  if (has_tiles(words) && (words.leaf7_edx & kAmxBf16) != 0) return Bf16Products::kAmx;
  return has_avx512_bf16(words) ? Bf16Products::kAvx512 : Bf16Products::kNone;
}

Bf16Products bf16_products() {
  return bf16_products(processor());
}

bool has_avx512_bf16() {
  return has_avx512_bf16(processor());
}

bool has_fp16_products() {
  const ProcessorWords& words = processor();
  return (words.avx512 && (words.leaf7_edx & kAvx512Fp16) != 0) ||
         (has_tiles(words) && (words.leaf7_1_eax & kAmxFp16) != 0);
}

}  // namespace echelon::kernels
