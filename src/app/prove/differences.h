#pragma once
#include <map>
#include <string>
#include <vector>

#include "app/engine/engine.h"

namespace echelon::app {

/// The distance of a run from the reference in one respect.
struct Difference {
  std::string what;  ///< "loss", "gradients", ...
  double value = 0;  ///< relative
  double bound = 0;
  std::string where;  ///< the step or the tensor where it is largest

  /// False also for a value that is no number.
  [[nodiscard]] bool holds() const { return value <= bound; }
  /// Becomes that of another place if it is larger there, or no number.
  void keep_larger(double other, const std::string& place);
};

/// The largest |got - expected| / |expected| of all steps.
[[nodiscard]] Difference of_steps(std::string what, double bound, const std::vector<double>& got,
                                  const std::vector<double>& expected);

/// Distance of each tensor of `expected` by its name.
using Distances = std::map<std::string, double>;

/// |got - expected| / |expected - from|, in the norm of the sum of squares; without `from`, over |expected|.
/// The divisor of a tensor is at least 1/200 of its share of the whole norm by size: some gradients, such as
/// those of key biases, are nothing but rounding. The distance is infinite for a tensor that `got` lacks.
[[nodiscard]] Distances distances(const Tensors& got, const Tensors& expected, const Tensors* from = nullptr);

/// The distance of all tensors together.
[[nodiscard]] double overall_distance(const Tensors& got, const Tensors& expected);

/// distances() without the elements whose gradients were never more than rounding: AdamW moves those elements
/// all the same. `largest_gradients`: the largest gradient of each element. The divisor is at least 1e-4
/// |expected|: the weights' own rounding is within a hundredth of that.
[[nodiscard]] Distances update_distances(const Tensors& found, const Tensors& expected, const Tensors& from,
                                         const Tensors& largest_gradients);

/// Returns how many tensors of `got` differ from those of `expected` in any bit, or are missing.
[[nodiscard]] Difference of_bits(std::string what, const Tensors& got, const Tensors& expected);

/// The largest of them.
[[nodiscard]] Difference of_tensors(std::string what, double bound, const Distances& found);

}  // namespace echelon::app
