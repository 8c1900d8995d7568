#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace echelon {

/// Initial values: a pure function of (seed, name, element index), so independent of how the model is
/// sharded.
struct InitSpec {
  enum class Kind { kNormal, kUniform, kConstant } kind = Kind::kNormal;
  float value = 0.02F;  ///< standard deviation, bound on both sides of zero, or the constant
};

class Parameter;

/// Where weight gradients go: implemented by the sharding engine. Unit-wide buffers exist only while a unit's
/// backward runs, so a gradient asks for its place when it is about to be written.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Makes `parameter.gradient` a valid view to write into.
  virtual void open(Parameter& parameter) = 0;
};

/// One weight matrix or vector as the computation uses it. It may hold several named tensors stacked along
/// dimension 0 (query, key and value projections multiply the same input: one product instead of three),
/// which checkpoints, initialisation and exports see as separate tensors. Shape only until an owner gives it
/// storage.
class Parameter {
 public:
  struct Part {
    std::string name;                   ///< Hugging Face name, e.g. "model.layers.0.self_attn.q_proj.weight"
    std::vector<std::int64_t> shape;    ///< elements lie one after another, row-major
    std::optional<InitSpec> init = {};  ///< where it is not that of the parameter
    [[nodiscard]] std::int64_t numel() const;
  };

  Parameter(std::string name, std::vector<std::int64_t> shape, InitSpec init);
  /// Stacked: every part is [rows_i, columns].
  Parameter(std::vector<Part> parts, InitSpec init);

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] const InitSpec& init() const { return init_; }
  [[nodiscard]] std::int64_t numel() const;

  /// The weight in compute precision; a leaf that requires grad. Undefined before an owner set it.
  at::Tensor value;

  /// Same shape and type as `value`; valid after sink->open(*this). `deposited`: already holds a gradient, to
  /// which further ones are added.
  at::Tensor gradient;
  bool deposited = false;
  GradientSink* sink = nullptr;

 private:
  std::vector<Part> parts_;
  std::vector<std::int64_t> shape_;
  InitSpec init_;
};

/// values[i] = initial value of element begin + i of `part` (flattened). `init`: of its parameter.
void fill_initial(const Parameter::Part& part, const InitSpec& init, std::uint64_t seed, std::int64_t begin,
                  std::int64_t count, float* values);

}  // namespace echelon
