#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::profile {

/// A kernel, copy or fill that a device ran.
struct Kernel {
  std::string name;
  std::int64_t stream = 0;
  double begin_s = 0;  ///< steady_now_s() of this process
  double end_s = 0;
  [[nodiscard]] double seconds() const { return end_s - begin_s; }
};

/// Records the kernels of a rank's device between begin() and end().
class KernelRecorder {
 public:
  virtual ~KernelRecorder() = default;
  virtual void begin() = 0;
  /// Waits for the device. Returns the kernels in the order of their beginning.
  [[nodiscard]] virtual std::vector<Kernel> end() = 0;
};

/// The lanes of lanes.json, by the kind of a kernel.
enum class KernelKind : std::uint8_t { kCompute, kGather, kReduce, kCopy };

/// Tells kernels of NCCL, copies and fills by their names from all others.
[[nodiscard]] KernelKind kind_of(const Kernel& kernel);

/// Seconds in which at least one of `kernels` ran. In order of their beginning.
[[nodiscard]] double busy_s(const std::vector<Kernel>& kernels);

}  // namespace echelon::profile
