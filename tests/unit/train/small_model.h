#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>

#include "base/philox.h"
#include "base/str.h"
#include "comm/local_communicator.h"
#include "optim/parameter_groups.h"
#include "shard/sharded_model.h"
#include "support/small_models.h"
#include "unit/shard/alone.h"

namespace echelon::test {

/// The parameters that slices have elements of.
using Held = std::function<bool(const Parameter::Part&)>;
inline bool everything(const Parameter::Part& /*part*/) {
  return true;
}
inline bool trained(const Parameter::Part& part) {
  return !part.frozen;
}

/// What rank `rank` of `size` holds of a small Llama. Ranks of several cannot communicate.
struct SmallModel {
  explicit SmallModel(int rank = 0, int size = 1, const OptimOptions& options = {},
                      const ModelOptions& shapes = small_options())
      : comm(size == 1 ? std::unique_ptr<Communicator>(std::make_unique<LocalCommunicator>())
                       : std::make_unique<AloneOf>(rank, size)),
        model(with_frozen(build_model(shapes, at::kFloat, at::kCPU), options), *comm, {}, 3, at::kCPU) {}

  /// f(piece, its elements of `slices[unit]`).
  void for_each_piece(const std::vector<at::Tensor>& slices,
                      const std::function<void(const SlicePiece&, at::Tensor)>& f,
                      const Held& held = everything) const {
    for (std::size_t u = 0; u < model.units().size(); ++u) {
      const Unit& unit = *model.units()[u];
      if (slices[u].numel() == 0) continue;
      for (const SlicePiece& piece : packed(unit.pieces(), held))
        f(piece, slices[u].narrow(0, piece.at, piece.numel()));
    }
  }

  /// Values that depend on the tensor's name, the element and `purpose` only, so are the same however the
  /// model is cut up; padding becomes zero.
  void fill(const std::vector<at::Tensor>& slices, const std::string& purpose,
            const Held& held = everything) const {
    for (at::Tensor slice : slices) slice.zero_();
    for_each_piece(
        slices,
        [&](const SlicePiece& piece, at::Tensor values) {
          const std::uint64_t key = stream_key(5, purpose + "/" + piece.part->name);
          for (std::int64_t i = 0; i < values.numel(); ++i)
            values[i] = normal_at(key, static_cast<std::uint64_t>(piece.begin + i));
        },
        held);
  }

  [[nodiscard]] std::vector<at::Tensor> masters() const {
    return mapped(model.units(), [](const auto& unit) { return unit->master(); });
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    return mapped(model.units(), [](const auto& unit) { return unit->gradient(); });
  }

  std::unique_ptr<Communicator> comm;
  ShardedModel model;
};

}  // namespace echelon::test
