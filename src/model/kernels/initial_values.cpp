#include <algorithm>
#include <span>

#include "base/normals.h"
#include "base/philox.h"
#include "model/kernels/tables.h"

namespace echelon::kernels {

void initial_values(const InitialValues& initial, std::uint64_t first, float* values, std::int64_t n) {
  const std::span<float> all(values, static_cast<std::size_t>(n));
  switch (initial.kind) {
    case InitialValues::Kind::kConstant: std::fill(all.begin(), all.end(), initial.value); return;
    case InitialValues::Kind::kNormal:
      fill_normals(initial.key, first, all);
      for (float& value : all) value *= initial.value;
      return;
    case InitialValues::Kind::kUniform:
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = initial.value * (2.0F * uniform_at(initial.key, first + i) - 1.0F);
      return;
  }
}

}  // namespace echelon::kernels
