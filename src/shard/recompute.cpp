#include "shard/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <utility>

#include "base/not_copied.h"
#include "shard/pass.h"

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

/// The state that backward needs besides the inputs; owned by the graph.
struct Region final : torch::CustomClassHolder {
  Region(LayerBody b, OffloadedInputs* o, Pass& p) : body(std::move(b)), host(o), pass(&p) {}
  LayerBody body;
  OffloadedInputs* host;
  Pass* pass;
  std::shared_ptr<OffloadedInputs::Input> first;  ///< null: kept on its device by autograd
  at::Tensor random;
};

/// While it lives, random numbers come from the state of the forward run. The state that backward had before
/// is restored at the end, also after an exception.
struct InBackward : NotCopied {
  InBackward(at::Device d, const at::Tensor& random) : device(d), outside(random_state(d)) {
    set_random_state(device, random);
  }
  ~InBackward() { set_random_state(device, outside); }
  at::Device device;
  at::Tensor outside;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList inputs,
                            const c10::intrusive_ptr<Region>& region) {
    region->random = random_state(inputs.front().device());
    variable_list kept = inputs.vec();
    if (region->host != nullptr && !kept.front().is_cpu()) {
      region->first = region->host->put(kept.front());
      kept.front().reset();
    }
    ctx->save_for_backward(std::move(kept));
    ctx->saved_data["region"] = c10::IValue::make_capsule(region);
    ctx->saved_data["device"] = inputs.front().device();
    return region->body(inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto capsule = ctx->saved_data["region"].toCapsule();
    auto& region = static_cast<Region&>(*capsule);
    const at::Device device = ctx->saved_data["device"].toDevice();
    LayerInputs inputs = ctx->get_saved_variables();
    if (region.first != nullptr) inputs.front() = region.host->take(std::exchange(region.first, nullptr));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      // Detached, so the inner backward() ends at the inputs and does not enter the outer graph.
      inputs[i] = inputs[i].detach().requires_grad_(ctx->needs_input_grad(i));
    }
    const at::AutoGradMode with_gradients(true);
    const InBackward inside(device, region.random);
    region.pass->begin_recompute();
    const at::Tensor output = region.body(inputs);
    region.pass->end_recompute();
    output.backward(grads[0]);
    variable_list gradients;
    for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
    gradients.emplace_back();  // no gradient for `region`
    return gradients;
  }
};

}  // namespace

at::Tensor recompute_in_backward(const LayerInputs& inputs, const LayerBody& body, OffloadedInputs* host,
                                 Pass& pass) {
  return Recomputed::apply(at::TensorList(inputs), c10::make_intrusive<Region>(body, host, pass));
}

}  // namespace echelon
