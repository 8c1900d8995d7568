// The kernels around the collectives, on a Machine: what reduce_kernels.cu does on a device.
#include <cstring>

#include "base/half.h"
#include "comm/nccl/reduce_kernels.h"
#include "gpu/stand_in/machine.h"

namespace echelon {
namespace {

stand_in::Machine& machine_of(cudaStream_t stream) {
  return stream == nullptr ? *stand_in::Machine::current()
                           : *reinterpret_cast<stand_in::Stream*>(stream)->machine;
}

float widen(DType type, std::uint16_t bits) {
  if (type == DType::kF16) return half_to_float(bits);
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

}  // namespace

cudaError_t sum_pieces(const Pieces& pieces, DType type, float* output, float scale, bool accumulate,
                       cudaStream_t stream) {
  const std::size_t bytes = pieces.count * 2;
  std::vector<stand_in::Range> reads{{pieces.own, bytes}};
  const auto piece_of = [pieces](int rank) {
    return rank == pieces.rank ? static_cast<const std::uint16_t*>(pieces.own)
                               : static_cast<const std::uint16_t*>(pieces.arrived) +
                                     static_cast<std::size_t>(rank) * pieces.count;
  };
  for (int rank = 0; rank < pieces.size; ++rank)
    if (rank != pieces.rank) reads.push_back({piece_of(rank), bytes});
  if (accumulate) reads.push_back({output, pieces.count * sizeof(float)});
  machine_of(stream).launch(stream, "sum_pieces", reads, {{output, pieces.count * sizeof(float)}}, [=] {
    for (std::size_t i = 0; i < pieces.count; ++i) {
      float sum = 0;
      for (int rank = 0; rank < pieces.size; ++rank) sum += widen(type, piece_of(rank)[i]);
      output[i] = (accumulate ? output[i] : 0.0F) + scale * sum;
    }
  });
  return cudaSuccess;
}

cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream) {
  std::vector<stand_in::Range> reads{{from, count * sizeof(float)}};
  if (accumulate) reads.push_back({to, count * sizeof(float)});
  machine_of(stream).launch(stream, "scale_into", reads, {{to, count * sizeof(float)}}, [=] {
    for (std::size_t i = 0; i < count; ++i) to[i] = (accumulate ? to[i] : 0.0F) + scale * from[i];
  });
  return cudaSuccess;
}

}  // namespace echelon
