#include "model/parts/adapter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace echelon {

std::optional<Adapter> Adapter::of(const Parameter& product, const std::vector<AdaptedMatrix>& adapted,
                                   const LoraOptions& lora) {
  std::vector<Parameter::Part> down;
  std::vector<Parameter::Part> up;
  std::vector<ops::Columns> places;
  std::int64_t column = 0;
  for (const Parameter::Part& part : product.parts()) {
    const std::string_view module = module_of(part.name);
    const std::int64_t outputs = part.shape[0];
    const auto chosen = std::find_if(adapted.begin(), adapted.end(),
                                     [&](const AdaptedMatrix& matrix) { return matrix.module == module; });
    if (chosen != adapted.end()) {
      down.push_back({adapter_a(module), {lora.rank, part.shape[1]}});
      up.push_back({adapter_b(module), {outputs, lora.rank}});
      places.push_back({column, outputs});
    }
    column += outputs;
  }
  if (down.empty()) return {};
  Adapter made(lora);
  made.places_ = std::move(places);
  made.site_ = down.front().name;
  // Kaiming's uniform distribution with a = sqrt(5), as peft has it.
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(product.shape()[1])));
  made.a_ = std::make_shared<Parameter>(std::move(down), InitSpec{InitSpec::Kind::kUniform, bound});
  made.b_ = std::make_shared<Parameter>(std::move(up), InitSpec{InitSpec::Kind::kConstant, 0.0F});
  return made;
}

at::Tensor Adapter::added_to(const at::Tensor& y, const at::Tensor& x, const ops::Recompute& x_again,
                             const Batch& draws) const {
  const auto dropped = [p = dropout_, site = site_, draws](const at::Tensor& in) {
    return ops::dropout(in, p, draws, site);
  };
  ops::Recompute again;
  if (x_again) again = [dropped, x_again] { return dropped(x_again()); };
  // Adapters compute in the type of the model; a product may be in a unit of another one.
  const at::ScalarType type = b_->value.scalar_type();
  const at::Tensor low = ops::linear(dropped(x.to(type)), *a_, again) * scale_;
  if (y.scalar_type() == type) return ops::add_low_rank(y, low, *b_, places_);
  return y + ops::add_low_rank(at::zeros(y.sizes(), low.options()), low, *b_, places_).to(y.scalar_type());
}

}  // namespace echelon
