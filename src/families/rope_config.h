#pragma once
#include <optional>

#include "families/model_config.h"
#include "shapes/options.h"

namespace echelon::families {

/// The rotary positions that a config.json asks for.
struct RopeConfig {
  double theta = 0;
  double window_theta = 0;  ///< of layers with a window; 0: theta
  RopeScalingOptions scaling;
  double partial_factor = 1;  ///< share of a head that turns
  /// Members that state them for every version of transformers: 4 reads rope_theta and rope_scaling, 5 writes
  /// rope_parameters only, and takes the others where they are present.
  std::map<std::string, checkpoint::Json> members;
};

/// How a family of models states its rotary positions.
struct RopeSpelling {
  std::optional<double> theta = 10'000.0;  ///< where none is stated; nothing: one must be
  /// rope_parameters has an object for each kind of layer, and only layers without a window are stretched.
  bool by_layer_type = false;
  /// The default of rope_local_base_freq, the theta of layers with a window; nothing: they have the others'.
  std::optional<double> window_theta = {};
  /// The default of partial_rotary_factor; nothing: whole heads turn, and no part of them can.
  std::optional<double> partial = {};
  /// longrope is the only stretching, and original_max_position_embeddings stands beside it.
  bool as_phi3 = false;
};

/// Reads rope_theta, rope_scaling and rope_parameters. Throws Error(kCheckpoint) for positions that the
/// trainer's model does not compute, for spellings that contradict each other, and for members of a scaling
/// that it does not know.
[[nodiscard]] RopeConfig read_rope(ModelConfig& config, std::int64_t max_positions,
                                   const RopeSpelling& spelling = {});

/// The lines of the recipe's section `model`.
[[nodiscard]] std::string recipe_lines(const RopeConfig& rope);

}  // namespace echelon::families
