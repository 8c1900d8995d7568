#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "app/engine/accelerator.h"
#include "app/engine/answer.h"
#include "app/engine/engine.h"
#include "app/engine/threads.h"
#include "base/steady_time.h"
#include "model/ops/products/product.h"

namespace echelon::app {
namespace {

/// Large enough to be compute-bound, small enough that a slow core completes several products in a window.
constexpr std::int64_t kCpuSize = 512;
constexpr std::int64_t kGpuSize = 4096;
constexpr double kWindowS = 0.2;

/// FLOP/s of consecutive products during `seconds`.
double window_rate(const at::Tensor& a, at::Tensor& out, double seconds) {
  const double flops =
      2.0 * static_cast<double>(a.size(0)) * static_cast<double>(a.size(0)) * static_cast<double>(a.size(0));
  const int products = a.is_cuda() ? 16 : 1;  // GPU launches are asynchronous: queue several per wait
  const double start_s = steady_now_s();
  double done = 0;
  double elapsed = 0;
  while (elapsed < seconds) {
    for (int i = 0; i < products; ++i) ops::product_into(out, a, a, false);
    if (a.is_cuda()) (void)out[0][0].item<float>();  // copying a value waits for the device
    done += flops * products;
    elapsed = steady_now_s() - start_s;
  }
  return done / elapsed;
}

MatmulResult measure(Job& job, double seconds) {
  const Compute compute = choose_compute(TrainOptions{}, job);
  set_threads(0, job.info());
  const bool gpu = compute.device.is_cuda();
  const std::int64_t size = gpu ? kGpuSize : kCpuSize;
  const at::Tensor a =
      at::ones({size, size}, at::TensorOptions().device(compute.device).dtype(at::kBFloat16));
  at::Tensor out = ops::product(a, a);
  (void)window_rate(a, out, kWindowS / 4);  // not timed: libraries load their kernels
  // All ranks measure together, since ranks of a node compete for it in training too.
  job.fence("doctor matmul");
  MatmulResult result{.device = gpu ? compute.accelerator->device_name(compute.device.index()) : "the CPU"};
  const double start_s = steady_now_s();
  // The best window counts: a short disturbance says nothing about the node.
  while (steady_now_s() - start_s < seconds)
    result.flops = std::max(result.flops, window_rate(a, out, kWindowS));
  return result;
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_matmul(echelon::Job& job, double seconds, echelon::app::MatmulResult& result) {
  return echelon::app::answer(result.fault, [&] { result = echelon::app::measure(job, seconds); });
}
