#include "model/model.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/str.h"
#include "model/llama.h"

namespace echelon {
namespace {

template <class F>
void for_each_parameter(const Model& model, const F& f) {
  for (const auto& parameter : model.shared()) f(*parameter);
  for (const auto& layer : model.layers()) {
    for (const auto& parameter : layer->parameters()) f(*parameter);
  }
}

}  // namespace

std::int64_t Model::numel() const {
  std::int64_t total = 0;
  for_each_parameter(*this, [&](const Parameter& p) { total += p.numel(); });
  return total;
}

std::unique_ptr<Model> build_model(const ModelOptions& options, at::ScalarType buffer_dtype,
                                   at::Device device) {
  if (options.kind == "llama") return std::make_unique<Llama>(options, buffer_dtype, device);
  throw Error(Code::kUsage, str("model.kind '", options.kind, "' is unknown; known: llama"));
}

void materialise(Model& model, std::uint64_t seed, at::ScalarType dtype, at::Device device) {
  for_each_parameter(model, [&](Parameter& p) {
    at::Tensor values = at::empty(p.shape(), at::kFloat);
    float* at = values.mutable_data_ptr<float>();
    for (const Parameter::Part& part : p.parts()) {
      fill_initial(part, p.init(), seed, 0, part.numel(), at);
      at += part.numel();
    }
    p.value = values.to(device, dtype).set_requires_grad(true);
  });
}

}  // namespace echelon
