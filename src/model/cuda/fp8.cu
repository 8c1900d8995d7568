#include <cuda_fp8.h>

#include <type_traits>

#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

using Element = __nv_bfloat16;
using Word = std::uint32_t;  ///< four elements of eight bits

__device__ inline Word larger(Word a, Word b) {
  return a > b ? a : b;
}

__device__ inline Word block_largest(Word value) {
  __shared__ Word shared[kWarp];
  return over_block(value, Word{0}, shared, larger,
                    [](Word mine, int lanes) { return __shfl_xor_sync(kAllLanes, mine, lanes); });
}

/// A partial result a block: magnitudes as bits, whose order puts an infinity above all numbers and a NaN
/// above that.
__global__ void largest_kernel(const Element* values, std::int64_t n, Word* partial) {
  Word mine = 0;
  walk<kVector<Element>>(elements_to_border(values, n), n, own_index(), all_threads(),
                         [&](auto width, std::int64_t i) {
                           constexpr int W = decltype(width)::value;
                           float x[W];
                           load(values + i, x);
#pragma unroll
                           for (int j = 0; j < W; ++j) mine = larger(mine, __float_as_uint(fabsf(x[j])));
                         });
  mine = block_largest(mine);
  if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

/// One block. `largest`: of the type.
__global__ void scale_kernel(const Word* partial, unsigned count, double largest, float* scale) {
  constexpr double kLeast = 1e-12;
  Word mine = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) mine = larger(mine, partial[i]);
  const auto magnitude = static_cast<double>(__uint_as_float(block_largest(mine)));
  if (threadIdx.x != 0) return;
  // The comparison is false for a NaN, which stays.
  const auto factor = static_cast<float>(largest / (magnitude < kLeast ? kLeast : magnitude));
  scale[0] = factor;
  scale[1] = 1.0F / factor;
}

// A block casts kTileRows x kTileColumns elements, a thread a piece of kPieceRows x kPiece of them.
constexpr int kPiece = kVector<Element>;
constexpr int kPieceRows = sizeof(Word);
constexpr int kPieces = 8;  ///< side by side
constexpr int kTileColumns = kPieces * kPiece;
constexpr int kTileRows = kThreads / kPieces * kPieceRows;
constexpr int kChunks = kTileRows / kAccessBytes;  ///< accesses that a column of a tile takes

/// Rounded to nearest even, and out of range to the largest. Code for 8.0, which devices of 8.9 run too, does
/// it in software, that for 9.0 by an instruction.
template <class T>
__device__ inline Word four(const float* x, float scale) {
  constexpr auto kKind = std::is_same_v<T, __nv_fp8_e5m2> ? __NV_E5M2 : __NV_E4M3;
  const Word low = __nv_cvt_float2_to_fp8x2({x[0] * scale, x[1] * scale}, __NV_SATFINITE, kKind);
  const Word high = __nv_cvt_float2_to_fp8x2({x[2] * scale, x[3] * scale}, __NV_SATFINITE, kKind);
  return low | high << 16U;
}

/// The type of a matrix that is only transposed.
struct Byte {};

/// The matrix that one block of cast_kernel() sees a tile of.
struct Cast {
  const void* values;  ///< Elements or Bytes
  const float* scale;
  unsigned char* plain;
  unsigned char* turned;
  std::int64_t rows;
  std::int64_t n;
  std::int64_t width;  ///< of a row of `turned`
  unsigned across;     ///< tiles side by side
};

template <bool kAligned, class T>
__global__ void __launch_bounds__(kThreads) cast_kernel(Cast of) {
  // Chunks of each column, exchanged so that the threads of a warp write to different banks.
  __shared__ Pack<Word, kVector<Word>> tile[kTileColumns][kChunks];
  const std::int64_t first_row = std::int64_t{blockIdx.x / of.across} * kTileRows;
  const std::int64_t first_column = std::int64_t{blockIdx.x % of.across} * kTileColumns;
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int word = static_cast<int>(threadIdx.x) / kPieces;
  const std::int64_t row = first_row + word * kPieceRows;
  const std::int64_t column = first_column + piece * kPiece;
  const std::int64_t place = row * of.n + column;
  const auto here = [&](int j) { return column < of.n && row + j < of.rows; };
  Pack<Word, 2> cast[kPieceRows] = {};
  if constexpr (std::is_same_v<T, Byte>) {
#pragma unroll
    for (int j = 0; j < kPieceRows; ++j) {
      if (!here(j)) continue;
      cast[j] = *reinterpret_cast<const Pack<Word, 2>*>(static_cast<const unsigned char*>(of.values) + place +
                                                        j * of.n);
    }
  } else {
    float x[kPieceRows][kPiece];
#pragma unroll
    for (int j = 0; j < kPieceRows; ++j) {
      if (!here(j)) continue;
      const Element* from = static_cast<const Element*>(of.values) + place + j * of.n;
      if constexpr (kAligned) {
        load(from, x[j]);
      } else {
        for (int i = 0; i < kPiece; ++i) x[j][i] = widen(from[i]);
      }
    }
    const float scale = *of.scale;
#pragma unroll
    for (int j = 0; j < kPieceRows; ++j) {
      if (!here(j)) continue;
      cast[j] = {{four<T>(x[j], scale), four<T>(x[j] + 4, scale)}};
      if (of.plain != nullptr) *reinterpret_cast<Pack<Word, 2>*>(of.plain + place + j * of.n) = cast[j];
    }
  }
  if (of.turned == nullptr) return;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    Word turned = 0;
#pragma unroll
    for (int j = 0; j < kPieceRows; ++j) turned |= (cast[j].at[i / 4] >> (i % 4 * 8U) & 0xFFU) << (j * 8U);
    tile[piece * kPiece + i][word / 4 ^ piece].at[word % 4] = turned;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTileColumns * kChunks; i += kThreads) {
    const int c = i / kChunks;
    const int chunk = i % kChunks;
    const std::int64_t at = first_row + chunk * kAccessBytes;
    if (first_column + c >= of.n || at >= of.width) continue;
    *reinterpret_cast<Pack<Word, kVector<Word>>*>(of.turned + (first_column + c) * of.width + at) =
        tile[c][chunk ^ c / kPiece];
  }
}

/// Calls start(cast, grid) for the tiles of a matrix [rows, n].
template <class F>
cudaError_t over_tiles(Cast cast, std::int64_t rows, std::int64_t n, cudaStream_t stream, F start) {
  if (rows == 0 || n == 0) return cudaSuccess;
  if (n % kAccessBytes != 0 || !on_borders({cast.plain, cast.turned})) return cudaErrorInvalidValue;
  const std::int64_t across = (n + kTileColumns - 1) / kTileColumns;
  const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows * across;
  if (tiles > kMostBlocks) return cudaErrorInvalidConfiguration;
  cast.rows = rows;
  cast.n = n;
  cast.width = (rows + kAccessBytes - 1) / kAccessBytes * kAccessBytes;
  cast.across = static_cast<unsigned>(across);
  start(cast, Grid{static_cast<unsigned>(tiles), kThreads, stream});
  return cudaGetLastError();
}

template <class T>
void start_cast(const Cast& cast, const Grid& grid) {
  on_borders({cast.values}) ? launch(cast_kernel<true, T>, grid, cast)
                            : launch(cast_kernel<false, T>, grid, cast);
}

}  // namespace

cudaError_t fp8_scale(const void* values, std::int64_t n, Fp8 type, std::uint32_t* partial, float* scale,
                      cudaStream_t stream) {
  const unsigned blocks = blocks_for(n, kVector<Element>, kFp8Partials);
  if (blocks > 0)
    launch(largest_kernel, {blocks, kThreads, stream}, static_cast<const Element*>(values), n, partial);
  const double largest = type == Fp8::kE5m2 ? 57344 : 448;
  launch(scale_kernel, {1, kThreads, stream}, partial, blocks, largest, scale);
  return cudaGetLastError();
}

cudaError_t fp8_cast(const void* values, const float* scale, Fp8 type, void* plain, void* turned,
                     std::int64_t rows, std::int64_t n, cudaStream_t stream) {
  const Cast cast{values, scale, static_cast<unsigned char*>(plain), static_cast<unsigned char*>(turned)};
  return over_tiles(cast, rows, n, stream,
                    type == Fp8::kE5m2 ? start_cast<__nv_fp8_e5m2> : start_cast<__nv_fp8_e4m3>);
}

cudaError_t fp8_transpose(const void* plain, void* turned, std::int64_t rows, std::int64_t n,
                          cudaStream_t stream) {
  if (rows % kAccessBytes != 0 || !on_borders({plain})) return cudaErrorInvalidValue;
  const Cast cast{plain, nullptr, nullptr, static_cast<unsigned char*>(turned)};
  return over_tiles(cast, rows, n, stream,
                    [](const Cast& of, const Grid& grid) { launch(cast_kernel<true, Byte>, grid, of); });
}

}  // namespace echelon::gpu
