#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "shapes/options.h"

namespace echelon {

using Dimensions = std::vector<std::int64_t>;

/// A weight under its name in checkpoints and exports. Row-major; the matrix of a linear layer is [outputs,
/// inputs].
struct TensorShape {
  std::string name;
  Dimensions dimensions;
  /// Rows of each matrix, if several are stacked: query, key and value, or gate and up.
  Dimensions stacked = {};
  bool table = false;  ///< an embedding or the output head: each row belongs to one token, patch or class
};

/// Both sizes of a matrix in cuBLASLt's products of fp8 are multiples of it.
inline constexpr std::int64_t kFp8Multiple = 16;

/// Rows of each matrix of inner linear layers in this tensor; none in a table, a vector or a convolution.
[[nodiscard]] Dimensions matrix_rows(const TensorShape& tensor);

/// The tensors of one layer, or of several equal layers in a row.
struct LayerShapes {
  std::string prefix;  ///< start of all names
  /// Number of equal layers. If set, the prefix is followed by the 0-based number of the layer and a dot.
  std::optional<std::int64_t> repeats;
  std::vector<TensorShape> tensors;  ///< of one layer; names without the prefix
};

/// Every weight of a model, once; a tied head has no entry. The only description of names and shapes: the
/// model builds its parameters from it, the recipe counts them, and imports and exports list them. Requires
/// sizes that pass find_model_conflicts().
[[nodiscard]] std::vector<LayerShapes> shapes_of(const ModelOptions& model);

/// shapes_of() as a flat list, with full names.
[[nodiscard]] std::vector<TensorShape> tensors_of(const ModelOptions& model);

/// Number of parameters; nothing if it exceeds 64 bits.
[[nodiscard]] std::optional<std::int64_t> parameter_count(const ModelOptions& model);

/// Shapes by full name.
class ShapeTable {
 public:
  explicit ShapeTable(const ModelOptions& model);
  /// Throws Error(kInternal) for a name that the model does not have.
  [[nodiscard]] const Dimensions& at(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return shapes_.contains(name); }

 private:
  std::unordered_map<std::string, Dimensions> shapes_;
};

}  // namespace echelon
