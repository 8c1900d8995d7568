#include "profile/kernels.h"

#include <algorithm>

namespace echelon::profile {

KernelKind kind_of(const Kernel& kernel) {
  const std::string& name = kernel.name;
  if (name.starts_with("Memcpy") || name.starts_with("Memset")) return KernelKind::kCopy;
  if (!name.starts_with("nccl")) return KernelKind::kCompute;
  const bool gathers =
      name.find("AllGather") != std::string::npos || name.find("Broadcast") != std::string::npos;
  return gathers ? KernelKind::kGather : KernelKind::kReduce;
}

double busy_s(const std::vector<Kernel>& kernels) {
  double busy = 0;
  double reached_s = 0;
  for (const Kernel& kernel : kernels) {
    busy += std::max(0.0, kernel.end_s - std::max(kernel.begin_s, reached_s));
    reached_s = std::max(reached_s, kernel.end_s);
  }
  return busy;
}

}  // namespace echelon::profile
