#include "base/cuda/launch.cuh"
#include "base/cuda/pack.cuh"
#include "model/cuda/block.cuh"
#include "model/cuda/gpu_kernels.h"

namespace echelon::gpu {
namespace {

struct QkvHeads {
  Heads q;
  Heads k;
  Heads v;
};

/// The place of head `head` of a projection row (query heads, then key, then value heads) for one token.
template <class T>
__device__ inline T* place(const QkvHeads& to, const kernels::QkvShape& shape, std::int64_t head,
                           std::int64_t batch, std::int64_t token) {
  Heads part = to.q;
  if (head >= shape.heads + shape.kv_heads) {
    head -= shape.heads + shape.kv_heads;
    part = to.v;
  } else if (head >= shape.heads) {
    head -= shape.heads;
    part = to.k;
  }
  return static_cast<T*>(part.data) + batch * part.batch + head * part.head + token * part.token;
}

/// One block a token; each thread takes V pairs of a head at a time: (i, i + width / 2), which turn, or of
/// the elements behind `width`, which stay. Split: the row is read and the heads are written; merge: the
/// other way round and rotated back.
template <int V, bool kMerge, class T>
__global__ void rotate_kernel(T* rows, QkvHeads heads, const float* cos_sin, int width,
                              kernels::QkvShape shape) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t batch = row / shape.seq_len;
  const std::int64_t token = row % shape.seq_len;
  const int turned = width / 2;
  const int half = static_cast<int>(shape.head_dim / 2);
  const int pieces = half / V;
  const int all = static_cast<int>(shape.heads + 2 * shape.kv_heads);
  const int rotated = static_cast<int>(shape.heads + shape.kv_heads);
  const float* angle = cos_sin + token * width;
  rows += row * all * shape.head_dim;
  float a[V];
  float b[V];
  float c[V];
  float s[V];
  for (int piece = static_cast<int>(threadIdx.x); piece < all * pieces;
       piece += static_cast<int>(blockDim.x)) {
    const int head = piece / pieces;
    const int i = piece % pieces * V;
    const bool turns = i < turned;
    const int first = turns ? i : i + turned;
    const int apart = turns ? turned : half - turned;
    T* in_row = rows + static_cast<std::int64_t>(head) * shape.head_dim + first;
    T* in_heads = place<T>(heads, shape, head, batch, token) + first;
    const T* from = kMerge ? in_heads : in_row;
    T* to = kMerge ? in_row : in_heads;
    load(from, a);
    load(from + apart, b);
    if (turns && head < rotated) {
      load(angle + i, c);
      load(angle + turned + i, s);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const float sine = kMerge ? -s[j] : s[j];
        const float x = a[j];
        const float y = b[j];
        a[j] = x * c[j] - y * sine;
        b[j] = y * c[j] + x * sine;
      }
    }
    store(to, a);
    store(to + apart, b);
  }
}

bool divisible(const Heads& heads, std::int64_t by) {
  return heads.batch % by == 0 && heads.head % by == 0 && heads.token % by == 0;
}

template <bool kMerge>
cudaError_t rotate(DType type, void* rows, const QkvHeads& heads, const float* cos_sin, std::int64_t width,
                   std::int64_t count, const kernels::QkvShape& shape, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (count > kMostBlocks || shape.head_dim % 2 != 0 || width % 2 != 0 || width > shape.head_dim)
    return cudaErrorInvalidValue;
  return with_type(type, [&](auto tag) {
    using T = decltype(tag);
    constexpr int V = kVector<T>;
    const bool wide = shape.head_dim / 2 % V == 0 && width / 2 % V == 0 && divisible(heads.q, V) &&
                      divisible(heads.k, V) && divisible(heads.v, V) &&
                      on_borders({rows, heads.q.data, heads.k.data, heads.v.data, cos_sin});
    const auto blocks = static_cast<unsigned>(count);
    launch(wide ? rotate_kernel<V, kMerge, T> : rotate_kernel<1, kMerge, T>, {blocks, kThreads, stream},
           static_cast<T*>(rows), heads, cos_sin, static_cast<int>(width), shape);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t rope_split(DType type, const void* qkv, const Heads& q, const Heads& k, const Heads& v,
                       const float* cos_sin, std::int64_t width, std::int64_t rows,
                       const kernels::QkvShape& shape, cudaStream_t stream) {
  // The kernel reads the rows here and writes them in rope_merge.
  return rotate<false>(type, const_cast<void*>(qkv), {q, k, v}, cos_sin, width, rows, shape, stream);
}

cudaError_t rope_merge(DType type, void* dqkv, const Heads& dq, const Heads& dk, const Heads& dv,
                       const float* cos_sin, std::int64_t width, std::int64_t rows,
                       const kernels::QkvShape& shape, cudaStream_t stream) {
  return rotate<true>(type, dqkv, {dq, dk, dv}, cos_sin, width, rows, shape, stream);
}

}  // namespace echelon::gpu
