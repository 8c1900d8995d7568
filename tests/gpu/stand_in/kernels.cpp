// The kernels around the collectives, on a Machine: what reduce_kernels.cu does on a device, by the
// arithmetic of the CPU ranks.
#include "comm/nccl/reduce_kernels.h"
#include "comm/reduce.h"
#include "gpu/stand_in/machine.h"

namespace echelon {
namespace {

/// Sources of each part in rank order; parts lie one after the other in `output`.
using Sources = std::vector<std::vector<const void*>>;

void launch_sum(const char* name, const Sources& parts, DType type, float* output, std::size_t count,
                float scale, bool accumulate, cudaStream_t stream) {
  const stand_in::Range written{output, parts.size() * count * sizeof(float)};
  std::vector<stand_in::Range> reads;
  for (const auto& sources : parts)
    for (const void* source : sources) reads.push_back({source, count * size_of(type)});
  if (accumulate) reads.push_back(written);
  stand_in::Machine::of(stream).launch(stream, name, reads, {written}, [=] {
    for (std::size_t part = 0; part < parts.size(); ++part)
      sum_scaled(parts[part], type, output + part * count, count, scale, accumulate);
  });
}

}  // namespace

cudaError_t sum_pieces(const Pieces& pieces, DType type, float* output, float scale, bool accumulate,
                       cudaStream_t stream) {
  const std::size_t bytes = pieces.count * size_of(type);
  Sources parts;
  for (int part = 0; part < pieces.parts; ++part) {
    const std::size_t first = static_cast<std::size_t>(part * pieces.size) * bytes;
    std::vector<const void*> sources;
    for (int rank = 0; rank < pieces.size; ++rank)
      sources.push_back(rank == pieces.rank ? static_cast<const std::byte*>(pieces.own) + first
                                            : static_cast<const std::byte*>(pieces.arrived) + first +
                                                  static_cast<std::size_t>(rank) * bytes);
    parts.push_back(std::move(sources));
  }
  launch_sum("sum_pieces", parts, type, output, pieces.count, scale, accumulate, stream);
  return cudaSuccess;
}

cudaError_t scale_into(const float* from, float* to, std::size_t count, float scale, bool accumulate,
                       cudaStream_t stream) {
  launch_sum("scale_into", {{from}}, DType::kF32, to, count, scale, accumulate, stream);
  return cudaSuccess;
}

}  // namespace echelon
