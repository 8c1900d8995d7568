#include "shapes/shapes.h"

#include "base/error.h"
#include "base/options/checked.h"
#include "base/str.h"
#include "shapes/kinds.h"
#include "shapes/llama_family.h"

namespace echelon {

namespace shapes {

TensorShape& add_affine(Tensors& to, const std::string& name, std::int64_t outputs, std::int64_t inputs) {
  to.push_back({name + ".weight", {outputs, inputs}});
  to.push_back({name + ".bias", {outputs}});
  return to[to.size() - 2];
}

void add_layer_norm(Tensors& to, const std::string& name, std::int64_t width) {
  to.push_back({name + ".weight", {width}});
  to.push_back({name + ".bias", {width}});
}

}  // namespace shapes

Dimensions matrix_rows(const TensorShape& tensor) {
  if (tensor.table || tensor.dimensions.size() != 2) return {};
  return tensor.stacked.empty() ? Dimensions{tensor.dimensions[0]} : tensor.stacked;
}

std::vector<LayerShapes> shapes_of(const ModelOptions& model) {
  switch (class_of(model.kind)) {
    case ModelClass::kLlama: break;
    case ModelClass::kGpt2: return shapes::gpt2(model);
    case ModelClass::kGptNeoX: return shapes::gpt_neox(model);
    case ModelClass::kT5: return shapes::t5(model);
    case ModelClass::kVit: return shapes::vit(model);
    case ModelClass::kDeepVit: return shapes::deepvit(model);
    case ModelClass::kCnn: return shapes::cnn(model);
  }
  return shapes::llama(model);
}

std::vector<TensorShape> tensors_of(const ModelOptions& model) {
  std::vector<TensorShape> all;
  for (const LayerShapes& layer : shapes_of(model)) {
    for (std::int64_t i = 0; i < layer.repeats.value_or(1); ++i) {
      const std::string prefix = layer.repeats ? str(layer.prefix, i, '.') : layer.prefix;
      for (const TensorShape& tensor : layer.tensors) {
        all.push_back(tensor);
        all.back().name = prefix + tensor.name;
      }
    }
  }
  return all;
}

std::optional<std::int64_t> parameter_count(const ModelOptions& model) {
  Checked total = 0;
  for (const LayerShapes& layer : shapes_of(model)) {
    Checked one = 0;
    for (const TensorShape& tensor : layer.tensors) {
      Checked elements = 1;
      for (const std::int64_t size : tensor.dimensions) elements = elements * size;
      one = one + elements;
    }
    total = total + one * layer.repeats.value_or(1);
  }
  return total.value();
}

ShapeTable::ShapeTable(const ModelOptions& model) {
  for (TensorShape& tensor : tensors_of(model))
    shapes_.emplace(std::move(tensor.name), std::move(tensor.dimensions));
}

const Dimensions& ShapeTable::at(const std::string& name) const {
  const auto found = shapes_.find(name);
  if (found == shapes_.end())
    throw Error::internal("src/shapes describes no tensor '", name, "' of this kind of model");
  return found->second;
}

}  // namespace echelon
