#pragma once
#include <vector_types.h>

#include <compare>
#include <string_view>

/// What the code of a kernel asks of the host that runs it (block.cpp).
namespace echelon::fibers {

[[nodiscard]] uint3 thread_index();
[[nodiscard]] uint3 block_index();
[[nodiscard]] dim3 block_size();
[[nodiscard]] dim3 grid_size();

/// A place in a kernel where threads wait for each other.
struct Site {
  std::string_view file;
  int line = 0;
  auto operator<=>(const Site&) const = default;
};

void wait_for_block(Site site);
/// Every lane of the warp hands in `bits`; what lane (own ^ lanes) has handed in.
[[nodiscard]] unsigned long long exchange(Site site, unsigned mask, unsigned long long bits, int lanes);

}  // namespace echelon::fibers
