#pragma once
#include "families/model_config.h"
#include "shapes/options.h"

namespace echelon::families {

/// The rotary positions that a config.json asks for.
struct RopeConfig {
  double theta = 0;
  RopeScalingOptions scaling;
  /// Members that state them for every version of transformers: 4 reads rope_theta and rope_scaling, 5 writes
  /// rope_parameters only, and takes the others where they are present.
  std::map<std::string, checkpoint::Json> members;
};

/// Reads rope_theta, rope_scaling and rope_parameters. Throws Error(kCheckpoint) for positions that the
/// trainer's model does not compute, for spellings that contradict each other, and for members of a scaling
/// that it does not know.
[[nodiscard]] RopeConfig read_rope(ModelConfig& config, std::int64_t max_positions);

/// The lines of the recipe's section `model`.
[[nodiscard]] std::string recipe_lines(const RopeConfig& rope);

}  // namespace echelon::families
