#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "families/weight_source.h"

namespace echelon::families {

/// Reads matrices of a WeightSource with rows and columns exchanged, in bounded memory: 16 MiB. Meant for
/// requests with rising positions, which it serves from a stretch read ahead.
class TransposedRead {
 public:
  /// `ahead`: bytes of a stretch, at least one element.
  explicit TransposedRead(const WeightSource& source, std::uint64_t ahead = std::uint64_t{15} << 20)
      : source_(source), ahead_(ahead) {}

  /// Fills `to` with elements from `begin` on of the flattened transpose of `matrix`, which has two
  /// dimensions and belongs to the source.
  void operator()(const SourceTensor& matrix, std::uint64_t begin, std::span<std::byte> to);

 private:
  void read_ahead(const SourceTensor& matrix, std::uint64_t begin);
  /// Reads elements of the transpose past what is held.
  void gather(const SourceTensor& matrix, std::uint64_t begin, std::span<std::byte> to);

  const WeightSource& source_;
  std::uint64_t ahead_;
  const SourceTensor* held_of_ = nullptr;
  std::uint64_t held_begin_ = 0;  ///< element of the transpose
  std::vector<std::byte> held_;
  std::vector<std::byte> block_;
};

}  // namespace echelon::families
