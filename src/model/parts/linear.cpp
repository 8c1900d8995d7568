#include "model/parts/linear.h"

namespace echelon {

InitSpec normal(double deviation) {
  return {InitSpec::Kind::kNormal, static_cast<float>(deviation)};
}

Linear add_linear(Layer& layer, const std::string& name, const ShapeTable& shapes, const InitSpec& weights,
                  const InitSpec& biases) {
  const std::string bias = name + ".bias";
  Linear linear{&layer.add(name + ".weight", shapes.at(name + ".weight"), weights)};
  if (shapes.has(bias)) linear.bias = &layer.add(bias, shapes.at(bias), biases);
  return linear;
}

std::vector<Parameter::Part> stacked(const std::vector<std::string>& names, const char* kind,
                                     const ShapeTable& shapes) {
  std::vector<Parameter::Part> parts;
  for (const std::string& name : names) {
    const std::string whole = name + "." + kind;
    parts.push_back({whole, shapes.at(whole)});
  }
  return parts;
}

Linear add_stacked(Layer& layer, const std::vector<std::string>& names, const ShapeTable& shapes,
                   const InitSpec& weights) {
  Linear linear{&layer.add(stacked(names, "weight", shapes), weights)};
  if (shapes.has(names.front() + ".bias")) linear.bias = &layer.add(stacked(names, "bias", shapes), kZeros);
  return linear;
}

}  // namespace echelon
