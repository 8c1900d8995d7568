#pragma once
#include <optional>

#include "families/model_config.h"
#include "shapes/options.h"

namespace echelon::families {

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

/// Reads rope_theta, rope_scaling and rope_parameters into `model`, whose max_positions is set. Returns the
/// members that state them for every version of transformers: 4 reads rope_theta and rope_scaling, 5 writes
/// rope_parameters only, and takes the others where they are present. Throws Error(kCheckpoint) for positions
/// that the trainer's model does not compute, for spellings that contradict each other, and for members of a
/// scaling that it does not know.
[[nodiscard]] ConfigMembers read_rope(ModelConfig& config, ModelOptions& model,
                                      const RopeSpelling& spelling = {});

/// The members with which read_rope() reads these positions.
[[nodiscard]] ConfigMembers rope_members(const ModelOptions& model, const RopeSpelling& spelling);

}  // namespace echelon::families
