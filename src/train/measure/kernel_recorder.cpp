#include "train/measure/kernel_recorder.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/steady_time.h"

namespace echelon {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

/// steady_now_s() minus the clock of Kineto's events, which is that of the system.
double offset_s() {
  const auto system = std::chrono::system_clock::now().time_since_epoch();
  return steady_now_s() - std::chrono::duration<double>(system).count();
}

class KinetoRecorder final : public profile::KernelRecorder {
 public:
  explicit KinetoRecorder(at::Device device)
      : device_(device), activities_{device.is_cpu() ? ActivityType::CPU : ActivityType::CUDA} {}

  void begin() override {
    const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
    kineto::prepareProfiler(config, activities_);
    kineto::enableProfiler(config, activities_);
  }

  std::vector<profile::Kernel> end() override {
    if (!device_.is_cpu()) {
      const c10::impl::VirtualGuardImpl guard(device_.type());
      guard.synchronizeDevice(guard.getDevice().index());
    }
    const auto result = kineto::disableProfiler();
    constexpr double kNano = 1e-9;
    const double offset = offset_s();
    std::vector<profile::Kernel> kernels;
    for (const kineto::KinetoEvent& event : result->events()) {
      if (event.deviceType() != device_.type()) continue;  // calls of the runtime by the host
      const auto at = [&](std::uint64_t ns) { return static_cast<double>(ns) * kNano + offset; };
      kernels.push_back({.name = event.name(),
                         .stream = event.deviceResourceId(),
                         .begin_s = at(event.startNs()),
                         .end_s = at(event.endNs())});
    }
    std::ranges::stable_sort(kernels, {}, &profile::Kernel::begin_s);
    return kernels;
  }

 private:
  at::Device device_;
  std::set<ActivityType> activities_;
};

}  // namespace

std::unique_ptr<profile::KernelRecorder> make_kernel_recorder(at::Device device) {
  return std::make_unique<KinetoRecorder>(device);
}

}  // namespace echelon
