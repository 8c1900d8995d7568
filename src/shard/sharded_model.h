#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "model/model.h"
#include "shard/options.h"
#include "shard/unit.h"

namespace echelon {

/// "bf16" -> at::kBFloat16, "fp32" -> at::kFloat.
[[nodiscard]] at::ScalarType scalar_type(const std::string& name);

/// A model whose parameters live in slices over the ranks of `comm` (fully sharded data parallel: Zhao et
/// al., PyTorch FSDP; Rajbhandari et al., ZeRO stage 3). Units are gathered just before they compute, with
/// the following ones prefetched, freed after, and gathered again for their backward; gradients leave as soon
/// as a unit's backward is complete. All calls are collective.
class ShardedModel {
 public:
  /// Allocates and initialises this rank's slices only. `comm` outlives this object.
  ShardedModel(std::unique_ptr<Model> model, Communicator& comm, const ShardOptions& options,
               at::ScalarType compute, std::uint64_t seed, at::Device device);
  ~ShardedModel();

  /// Forward and backward of one micro-batch, ids int64 [rows, T + 1] on the device. Returns the summed token
  /// loss of this rank (fp32 scalar tensor). `first`: starts a new gradient sum, else adds to it. Gradients
  /// are multiplied by `gradient_scale` and summed over ranks.
  at::Tensor accumulate(const at::Tensor& ids, double gradient_scale, bool first);

  /// Waits until every unit's gradient() is complete. Before reading gradients.
  void finish_gradients();

  /// Summed token loss of this rank, no gradients.
  at::Tensor evaluate(const at::Tensor& ids);
  /// Logits after the last position, fp32 [rows, vocabulary], no gradients.
  at::Tensor next_token_logits(const at::Tensor& ids);

  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  [[nodiscard]] at::Device device() const { return device_; }

  /// Bytes this rank keeps: master slices + gradients, and the pool's buffers.
  [[nodiscard]] std::int64_t slice_bytes() const;
  [[nodiscard]] std::int64_t pool_bytes() const { return pool_.bytes_allocated(); }

 private:
  class Hook;
  friend class Hook;
  void make_units(Communicator& comm, at::ScalarType compute, const std::string& policy);
  void add_unit(const std::string& name, std::vector<Parameter*> parameters, Communicator& comm,
                at::ScalarType compute);
  void prefetch_forward(std::size_t index);
  void prefetch_backward(std::size_t index);
  void reduce(Unit& unit);
  template <class F>
  at::Tensor without_gradients(const F& compute);

  std::unique_ptr<Model> model_;
  ShardOptions options_;
  at::Device device_;
  BufferPool pool_;
  std::vector<std::unique_ptr<Unit>> units_;  ///< layers' units in forward order, then the outer one if any
  std::vector<std::unique_ptr<Hook>> hooks_;  ///< of the layers' units
  Unit* outer_ = nullptr;                     ///< shared parameters: gathered for the whole pass
  std::deque<Unit*> reducing_;                ///< sums in flight, oldest first
  std::vector<const Unit*> reduced_;          ///< units whose backward is complete in the current pass
  bool accumulate_ = false;
};

}  // namespace echelon
