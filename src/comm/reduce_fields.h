#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <string_view>
#include <utility>

#include "comm/communicator.h"

namespace echelon {

/// Sums a struct of doubles over all ranks in one operation, in place. Collective.
template <class Values>
void sum_fields(Communicator& comm, Values& values, std::string_view label) {
  constexpr std::size_t kFields = sizeof(Values) / sizeof(double);
  static_assert(  // braces do not narrow
      []<std::size_t... I>(std::index_sequence<I...>) {
        return requires(double one) {
          Values{(static_cast<void>(I), one)...};
        };
      }(std::make_index_sequence<kFields>()),
      "a field is no double");
  auto packed = std::bit_cast<std::array<double, kFields>>(values);
  comm.all_reduce(packed.data(), kFields, DType::kF64, ReduceOp::kSum, label).wait();
  values = std::bit_cast<Values>(packed);
}

}  // namespace echelon
