#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>

#include "base/philox.h"
#include "optim/parameter_groups.h"
#include "shard/sharded_model.h"
#include "unit/shard/alone.h"

namespace echelon::test {

inline ModelOptions small_options() {
  return {.vocab_size = 13,
          .hidden_size = 8,
          .intermediate_size = 12,
          .layers = 2,
          .heads = 2,
          .kv_heads = 1,
          .max_positions = 8};
}

/// What rank `rank` of `size` holds of a small Llama.
struct SmallModel {
  explicit SmallModel(int rank = 0, int size = 1, const OptimOptions& options = {})
      : comm(rank, size),
        model(with_frozen(build_model(small_options(), at::kFloat, at::kCPU), options), comm, {}, 3,
              at::kCPU) {}

  /// f(piece, its elements of `slices[unit]`). Without `of_frozen` they are of what is trained only, as are
  /// states of the optimizer.
  void for_each_piece(const std::vector<at::Tensor>& slices,
                      const std::function<void(const SlicePiece&, at::Tensor)>& f,
                      bool of_frozen = true) const {
    for (std::size_t u = 0; u < model.units().size(); ++u) {
      const Unit& unit = *model.units()[u];
      if (slices[u].numel() == 0) continue;
      for (const SlicePiece& piece : of_frozen ? unit.pieces() : unit.trained_pieces())
        f(piece, slices[u].narrow(0, piece.at, piece.numel()));
    }
  }

  /// Values that depend on the tensor's name, the element and `purpose` only, so are the same however the
  /// model is cut up; padding becomes zero.
  void fill(const std::vector<at::Tensor>& slices, const std::string& purpose, bool of_frozen = true) const {
    for (at::Tensor slice : slices) slice.zero_();
    for_each_piece(
        slices,
        [&](const SlicePiece& piece, at::Tensor values) {
          const std::uint64_t key = stream_key(5, purpose + "/" + piece.part->name);
          for (std::int64_t i = 0; i < values.numel(); ++i)
            values[i] = normal_at(key, static_cast<std::uint64_t>(piece.begin + i));
        },
        of_frozen);
  }

  [[nodiscard]] std::vector<at::Tensor> masters() const {
    std::vector<at::Tensor> slices;
    for (const auto& unit : model.units()) slices.push_back(unit->master());
    return slices;
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> slices;
    for (const auto& unit : model.units()) slices.push_back(unit->gradient());
    return slices;
  }

  AloneOf comm;
  ShardedModel model;
};

}  // namespace echelon::test
