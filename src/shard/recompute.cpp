#include "shard/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

namespace echelon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor random_state(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

at::Tensor to_host(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  at::Tensor host = at::empty(x.sizes(), x.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(x, true);
}

/// What backward needs; lives in the graph.
struct Region final : torch::CustomClassHolder {
  Region(LayerBody b, bool o, RecomputeGuard& g) : body(std::move(b)), offload(o), guard(&g) {}
  LayerBody body;
  bool offload;
  RecomputeGuard* guard;
  at::Tensor random;
};

struct InBackward {
  InBackward(RecomputeGuard& g, at::Device d, const at::Tensor& random)
      : guard(g), device(d), outside(random_state(d)) {
    set_random_state(device, random);
    guard.begin_recompute();
  }
  ~InBackward() {
    guard.end_recompute();
    set_random_state(device, outside);
  }
  InBackward(const InBackward&) = delete;
  InBackward& operator=(const InBackward&) = delete;
  RecomputeGuard& guard;
  at::Device device;
  at::Tensor outside;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList inputs,
                            const c10::intrusive_ptr<Region>& region) {
    region->random = random_state(inputs.front().device());
    variable_list kept = inputs.vec();
    if (region->offload) kept.front() = to_host(kept.front());
    ctx->save_for_backward(std::move(kept));
    ctx->saved_data["region"] = c10::IValue::make_capsule(region);
    ctx->saved_data["device"] = inputs.front().device();
    return region->body(inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto capsule = ctx->saved_data["region"].toCapsule();
    const auto& region = static_cast<const Region&>(*capsule);
    const at::Device device = ctx->saved_data["device"].toDevice();
    LayerInputs inputs = ctx->get_saved_variables();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = inputs[i].to(device, true).detach().requires_grad_(ctx->needs_input_grad(i));
    }
    const at::AutoGradMode with_gradients(true);
    const InBackward inside(*region.guard, device, region.random);
    region.body(inputs).backward(grads[0]);
    variable_list gradients;
    for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
    gradients.emplace_back();  // of `region`
    return gradients;
  }
};

}  // namespace

at::Tensor recompute_in_backward(const LayerInputs& inputs, const LayerBody& body, bool offload,
                                 RecomputeGuard& guard) {
  return Recomputed::apply(at::TensorList(inputs), c10::make_intrusive<Region>(body, offload, guard));
}

}  // namespace echelon
