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

}  // namespace echelon::profile
