#include <ATen/ATen.h>

#include <utility>

#include "app/engine/answer.h"
#include "app/engine/engine.h"
#include "data/loader.h"
#include "model/element_types.h"
#include "optim/schedule.h"
#include "reference/training.h"
#include "shapes/lora.h"

namespace echelon::app {
namespace {

reference::Weights as_tensors(const Tensors& values, const Recipe& recipe) {
  reference::Weights weights;
  for (const TensorShape& shape : tensors_of(recipe.model, recipe.lora))
    weights[shape.name] = at::tensor(values.at(shape.name), at::kFloat).view(shape.dimensions);
  return weights;
}

Tensors as_values(const reference::Weights& weights) {
  Tensors values;
  for (const auto& [name, weight] : weights) {
    const at::Tensor flat = weight.to(at::kFloat).contiguous();
    values[name].assign(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  }
  return values;
}

void train_by_reference(const Recipe& recipe, const Tensors& weights, DType type,
                        const std::vector<bool>& left_out, ReferenceResult& result) {
  const auto seed = static_cast<std::uint64_t>(recipe.run.seed);
  const auto data = make_loader(recipe.data, recipe.model, seed);
  reference::Training training({.model = recipe.model,
                                .lora = recipe.lora,
                                .seed = seed,
                                .optim = recipe.optim,
                                .train = recipe.train,
                                .type = scalar_type_of(type)},
                               as_tensors(weights, recipe));
  const std::int64_t batch = recipe.train.global_batch_size;
  for (std::int64_t step = 0; step < recipe.train.steps; ++step) {
    std::vector<SampleBatch> samples;
    for (std::int64_t i = 0; i < batch; ++i) samples.push_back(data->read(step * batch + i, 1));
    const double lr = learning_rate(recipe.optim, recipe.schedule, step + 1, recipe.train.steps);
    const bool is_left_out = std::cmp_less(step, left_out.size()) && left_out[step];
    const reference::Training::Step done = training.step(samples, lr, is_left_out);
    result.loss.push_back(done.loss);
    result.grad_norm.push_back(done.grad_norm);
    result.lr.push_back(lr);
  }
  result.gradients = as_values(training.gradients());
  result.weights = as_values(training.weights());
  result.averages = as_values(training.averages());
  result.largest_gradients = as_values(training.largest_gradients());
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_reference(const echelon::Recipe& recipe, const echelon::app::Tensors& weights,
                             echelon::DType type, const std::vector<bool>& left_out,
                             echelon::app::ReferenceResult& result, std::string& fault) {
  return echelon::app::answer(
      fault, [&] { echelon::app::train_by_reference(recipe, weights, type, left_out, result); });
}
