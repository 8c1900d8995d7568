#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/kernels/arguments.h"

namespace echelon {

/// Distribution of initial values. A value is a pure function of seed, tensor name and element index, and so
/// does not depend on sharding.
struct InitSpec {
  using Kind = kernels::InitialValues::Kind;
  Kind kind = Kind::kNormal;
  /// kNormal: standard deviation, mean 0; kUniform: bound b of [-b, b]; kConstant: the value.
  float value = 0.02F;
};

class Parameter;

/// Provides the memory for weight gradients; implemented by the sharding engine. A unit's buffer exists only
/// during its backward, so it is requested when a gradient is about to be written.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Makes `parameter.gradient` writable.
  virtual void open(Parameter& parameter) = 0;
};

/// One weight matrix or vector as the computation uses it. It may consist of several named tensors, stacked
/// along dimension 0: query, key and value projections have the same input, so one product replaces three.
/// Checkpoints, initialization and exports see these tensors separately. Has only a shape until an owner
/// gives it storage.
class Parameter {
 public:
  struct Part {
    std::string name;                   ///< Hugging Face name, e.g. "model.layers.0.self_attn.q_proj.weight"
    std::vector<std::int64_t> shape;    ///< row-major, contiguous
    std::optional<InitSpec> init = {};  ///< overrides the parameter's
    bool frozen = false;                ///< keeps its values: no gradient, no state of the optimizer
    /// Rows of each matrix of inner linear layers in it (matrix_rows() of shapes.h).
    std::vector<std::int64_t> matrices = {};
    [[nodiscard]] std::int64_t numel() const;
  };

  Parameter(std::string name, std::vector<std::int64_t> shape, InitSpec init);
  /// Stacked: part i is [rows_i, columns].
  Parameter(std::vector<Part> parts, InitSpec init);

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] const InitSpec& init() const { return init_; }
  [[nodiscard]] std::int64_t numel() const;

  /// Freezes the parts whose names `chosen` picks. For before an owner gives the parameter storage.
  void freeze(const std::function<bool(const std::string&)>& chosen);
  /// Sets Part::matrices. When build_model() has built the layers.
  void note_matrices(const std::function<std::vector<std::int64_t>(const std::string&)>& rows_of);
  /// False if all parts are frozen.
  [[nodiscard]] bool trained() const;

  /// Its products in training passes are of fp8 (ops::fp8_linear()). Set by build_model().
  bool fp8 = false;

  /// The weight in compute precision, a leaf that requires a gradient if it is trained. Undefined until an
  /// owner sets it.
  at::Tensor value;

  /// With `fp8`, in training passes: the weight in e4m3, which `value` then need not hold, and fp32 [2], its
  /// scale and 1 / scale. Undefined unless an owner sets them: then products cast `value`.
  at::Tensor value8;
  at::Tensor scale8;

  /// Same shape and type as `value`; writable after sink->open(*this). `deposited`: it already contains a
  /// gradient, to which others must be added.
  at::Tensor gradient;
  bool deposited = false;
  GradientSink* sink = nullptr;

 private:
  std::vector<Part> parts_;
  std::vector<std::int64_t> shape_;
  InitSpec init_;
};

/// values[i] = initial value of element begin + i of the flattened `part`, for i in [0, count). `init`: that
/// of its parameter.
void fill_initial(const Parameter::Part& part, const InitSpec& init, std::uint64_t seed, std::int64_t begin,
                  std::int64_t count, float* values);

}  // namespace echelon
