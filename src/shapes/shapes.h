#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "shapes/options.h"

namespace echelon {

using Dimensions = std::vector<std::int64_t>;

/// A weight under the name that checkpoints and exports have for it. Elements lie row-major; the matrix of a
/// linear layer is [outputs, inputs].
struct TensorShape {
  std::string name;
  Dimensions dimensions;
};

/// The tensors of one layer, or of equal layers in a row.
struct LayerShapes {
  std::string prefix;  ///< what the names begin with
  /// Given: after the prefix, names have the number of the layer, from 0 on, and a point.
  std::optional<std::int64_t> repeats;
  std::vector<TensorShape> tensors;  ///< of one layer; names without the prefix
};

/// Every weight of a model, once: a tied head has no entry. This is the one description of names and shapes:
/// the model builds its parameters from it, the recipe counts them, and imports and exports list them.
/// For options whose sizes divide as find_model_conflicts() requires.
[[nodiscard]] std::vector<LayerShapes> shapes_of(const ModelOptions& model);

/// shapes_of(), each tensor with its whole name.
[[nodiscard]] std::vector<TensorShape> tensors_of(const ModelOptions& model);

/// Number of parameters; nothing if it does not fit in 64 bits.
[[nodiscard]] std::optional<std::int64_t> parameter_count(const ModelOptions& model);

/// Shapes by whole name.
class ShapeTable {
 public:
  explicit ShapeTable(const ModelOptions& model);
  /// Throws std::logic_error for a name that the model does not have.
  [[nodiscard]] const Dimensions& at(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return shapes_.contains(name); }

 private:
  std::unordered_map<std::string, Dimensions> shapes_;
};

}  // namespace echelon
