#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "comm/communicator.h"

namespace echelon {

/// Reduces a struct of doubles over all ranks in one operation, in place; `fields` lists every one of them.
/// Collective.
template <class Values, std::size_t N>
void all_reduce_fields(Communicator& comm, Values& values, double Values::*const (&fields)[N], ReduceOp op,
                       std::string_view label) {
  static_assert(sizeof(Values) == N * sizeof(double), "a field is missing");
  std::array<double, N> packed{};
  for (std::size_t i = 0; i < N; ++i) packed[i] = values.*fields[i];
  comm.all_reduce(packed.data(), N, DType::kF64, op, label).wait();
  for (std::size_t i = 0; i < N; ++i) values.*fields[i] = packed[i];
}

}  // namespace echelon
