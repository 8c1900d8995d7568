#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace echelon {

/// values[i] = normal_at(key, begin + i), the same bits, many at a time: both values of a pair from one
/// computation, in vector registers. Reentrant.
void fill_normals(std::uint64_t key, std::uint64_t begin, std::span<float> values);

}  // namespace echelon
