#include "model/parameter.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/philox.h"

namespace echelon {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::int64_t> stacked_shape(const std::vector<Parameter::Part>& parts) {
  std::vector<std::int64_t> shape = parts.at(0).shape;
  for (std::size_t i = 1; i < parts.size(); ++i) shape[0] += parts[i].shape.at(0);
  return shape;
}

}  // namespace

std::int64_t Parameter::Part::numel() const {
  return product(shape);
}

Parameter::Parameter(std::string name, std::vector<std::int64_t> shape, InitSpec init)
    : parts_{{std::move(name), shape}}, shape_(std::move(shape)), init_(init) {}

Parameter::Parameter(std::vector<Part> parts, InitSpec init)
    : parts_(std::move(parts)), shape_(stacked_shape(parts_)), init_(init) {}

std::int64_t Parameter::numel() const {
  return product(shape_);
}

void fill_initial(const Parameter::Part& part, const InitSpec& of_parameter, std::uint64_t seed,
                  std::int64_t begin, std::int64_t count, float* values) {
  const InitSpec& init = part.init ? *part.init : of_parameter;
  if (init.kind == InitSpec::Kind::kConstant) {
    std::fill(values, values + count, init.value);
    return;
  }
  const std::uint64_t key = stream_key(seed, part.name);
  const bool normal = init.kind == InitSpec::Kind::kNormal;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(begin + i);
    values[i] = init.value * (normal ? normal_at(key, index) : 2.0F * uniform_at(key, index) - 1.0F);
  }
}

}  // namespace echelon
