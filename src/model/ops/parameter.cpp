#include "model/parameter.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/philox.h"
#include "model/kernels/kernels.h"

namespace echelon {
namespace {

/// Elements for which a separate thread pays off.
constexpr std::int64_t kThreadsShare = 1 << 16;

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

void Parameter::freeze(const std::function<bool(const std::string&)>& chosen) {
  for (Part& part : parts_) part.frozen = part.frozen || chosen(part.name);
}

void Parameter::note_matrices(const std::function<std::vector<std::int64_t>(const std::string&)>& rows_of) {
  for (Part& part : parts_) part.matrices = rows_of(part.name);
}

bool Parameter::trained() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return !part.frozen; });
}

void fill_initial(const Parameter::Part& part, const InitSpec& of_parameter, std::uint64_t seed,
                  std::int64_t begin, std::int64_t count, float* values) {
  const InitSpec& init = part.init ? *part.init : of_parameter;
  const kernels::InitialValues initial{init.kind, init.value, stream_key(seed, part.name)};
  at::parallel_for(0, count, kThreadsShare, [&](std::int64_t from, std::int64_t to) {
    kernels::tables().initial_values(initial, static_cast<std::uint64_t>(begin + from), values + from,
                                     to - from);
  });
}

}  // namespace echelon
