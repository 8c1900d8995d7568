#pragma once
#include <cstddef>
#include <set>
#include <string>

#include "base/cuda/launch.cuh"
#include "gpu/fibers/calls.h"
#include "gpu/fibers/memory.h"

/// Runs a launch on the host: block after block, the threads of a block as fibers in an order of chance that
/// stop where they wait for each other.
namespace echelon::fibers {

/// Null: ordinary code of the host runs.
struct Running {
  const char* stacks = nullptr;  ///< of all fibers
  std::size_t stack_bytes = 0;   ///< of one
  Moment now;
  std::string kernel;
};
[[nodiscard]] const Running* running();

/// From the next launch on. `seed`: of the order of threads; `without`: nobody waits there.
void set_schedule(unsigned seed, const Site& without = {});
/// From the next launch on only that many of the first and of the last blocks run; 0: all.
void run_ends(unsigned blocks);
/// Every place where a block waited so far.
[[nodiscard]] const std::set<Site>& barriers();
/// Every kernel that was launched so far.
[[nodiscard]] const std::set<std::string>& launched();
/// From now on the kernel's launches may have so many bytes of dynamic shared memory.
void allow_shared(const void* kernel, std::size_t bytes);
/// Error of the last launch, as cudaGetLastError() gives it: once.
[[nodiscard]] cudaError_t take_launch_error();

}  // namespace echelon::fibers
