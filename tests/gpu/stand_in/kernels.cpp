// The kernels around the collectives, on a Machine: what reduce_kernels.cu does on a device, by the
// arithmetic of the CPU ranks.
#include "comm/nccl/reduce_kernels.h"
#include "comm/reduce.h"
#include "gpu/stand_in/machine.h"

namespace echelon {
namespace {

void launch_sum(const char* name, const std::vector<const void*>& sources, DType type, float* output,
                std::size_t count, float scale, bool accumulate, cudaStream_t stream) {
  const stand_in::Range written{output, count * sizeof(float)};
  std::vector<stand_in::Range> reads;
  for (const void* source : sources) reads.push_back({source, count * size_of(type)});
  if (accumulate) reads.push_back(written);
  stand_in::Machine::of(stream).launch(stream, name, reads, {written},
                                       [=] { sum_scaled(sources, type, output, count, scale, accumulate); });
}

}  // namespace

cudaError_t sum_pieces(const Pieces& pieces, DType type, float* output, float scale, bool accumulate,
                       cudaStream_t stream) {
  const auto* arrived = static_cast<const std::byte*>(pieces.arrived);
  std::vector<const void*> sources;
  for (int rank = 0; rank < pieces.size; ++rank) {
    const std::size_t at = static_cast<std::size_t>(rank) * pieces.count * size_of(type);
    sources.push_back(rank == pieces.rank ? pieces.own : arrived + at);
  }
  launch_sum("sum_pieces", sources, type, output, pieces.count, scale, accumulate, stream);
  return cudaSuccess;
}

cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream) {
  launch_sum("scale_into", {from}, DType::kF32, to, count, scale, accumulate, stream);
  return cudaSuccess;
}

}  // namespace echelon
