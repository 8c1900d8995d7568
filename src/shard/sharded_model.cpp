#include "shard/sharded_model.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace echelon {
namespace {

/// Runs each pass of a model's decoder with gathered weights and without autograd.
class RankDecoder final : public Decoder {
 public:
  RankDecoder(Pass& pass, std::unique_ptr<Decoder> decoder) : pass_(pass), decoder_(std::move(decoder)) {}
  at::Tensor start() override {
    return pass_.evaluate([&] { return decoder_->start(); });
  }
  at::Tensor step(const at::Tensor& ids) override {
    return pass_.evaluate([&] { return decoder_->step(ids); });
  }
  void reorder(const at::Tensor& rows) override { decoder_->reorder(rows); }

 private:
  Pass& pass_;
  std::unique_ptr<Decoder> decoder_;
};

std::int64_t fp8_matrices(const std::vector<UnitPlan>& plan) {
  std::size_t count = 0;
  for (const UnitPlan& unit : plan) count += unit.fp8 ? unit.parameters.size() : 0;
  return static_cast<std::int64_t>(count);
}

}  // namespace

ShardedModel::ShardedModel(std::unique_ptr<Model> model, Communicator& comm, const EngineOptions& options,
                           std::uint64_t seed, at::Device device)
    : model_(std::move(model)),
      activity_(options.activity),
      precision_(resolve(options.precision)),
      device_(device),
      groups_(options.shard, comm, options.ranks_per_node),
      pool_(device),
      copies_(device),
      offloaded_(copies_),
      plan_(plan_units(*model_, options.shard, options.precision)),
      scales_(at::zeros({fp8_matrices(plan_), 2}, at::TensorOptions().device(device))),
      units_(make_units(options)),
      pass_(units_, options.shard, pool_, *activity_) {
  attach_hooks(options.activations);
  if (options.trains && options.initialize) initialize(seed);
}

void ShardedModel::initialize(std::uint64_t seed) {
  for (const auto& unit : units_) unit->initialize(seed);
  weights_changed();
}

ShardedModel::Times ShardedModel::times() const {
  Times times = pass_.times();
  const double gathers_s = groups_.world().stream_gather_wait_s();
  times.gather_wait_s += gathers_s;
  times.reduce_wait_s += groups_.world().stream_wait_s() - gathers_s;
  return times;
}

ShardedModel::~ShardedModel() {
  for (Layer* layer : all_layers(*model_)) layer->attach(nullptr);
}

std::vector<std::unique_ptr<Unit>> ShardedModel::make_units(const EngineOptions& options) {
  const Strategy strategy = strategy_of(options.shard);
  const UnitSetup setup{.groups = &groups_,
                        .pool = &pool_,
                        .copies = &copies_,
                        .strategy = strategy,
                        .precision = precision_,
                        .reduce_at_end = strategy.reduce_at_end || options.reduce_at_end,
                        .offload = options.shard.offload == Offload::kCpu,
                        .trains = options.trains};
  std::vector<std::unique_ptr<Unit>> units;
  std::int64_t matrices = 0;
  const auto scales_of = [&](const UnitPlan& plan) {
    if (!plan.fp8 || !options.trains) return at::Tensor();
    const auto count = static_cast<std::int64_t>(plan.parameters.size());
    matrices += count;
    return scales_.narrow(0, matrices - count, count);
  };
  for (const UnitPlan& plan : plan_) {
    if (!plan.parameters.empty()) units.push_back(std::make_unique<Unit>(plan, setup, scales_of(plan)));
  }
  return units;
}

void ShardedModel::agree_on_scales() {
  bool changed = false;
  for (const auto& unit : units_) changed = unit->measure() || changed;
  if (!changed) return;
  groups_.shard()
      .all_reduce(scales_.mutable_data_ptr(), static_cast<std::size_t>(scales_.numel()), DType::kF32,
                  ReduceOp::kMin, "scales of fp8")
      .wait();
  at::Tensor factors = scales_.select(1, 1);
  at::reciprocal_out(factors, scales_.select(1, 0));
}

void ShardedModel::prefetch() {
  agree_on_scales();
  pass_.prefetch();
}

void ShardedModel::attach_hooks(const ActivationCheckpointingOptions& options) {
  const RecomputePlan recompute(*model_, options);
  const bool roots_train = std::any_of(units_.begin(), units_.end(), [](const auto& unit) {
    return unit->plan().layer == nullptr && unit->trains();
  });
  for (Layer* layer : all_layers(*model_)) {
    const auto planned =
        std::find_if(plan_.begin(), plan_.end(), [&](const UnitPlan& p) { return p.layer == layer; });
    const RecomputePlan::Mode mode = recompute.mode(*layer);
    if (planned == plan_.end() && mode == RecomputePlan::Mode::kNone) continue;
    const auto unit =
        std::find_if(units_.begin(), units_.end(), [&](const auto& u) { return u->plan().layer == layer; });
    const bool has_unit = unit != units_.end();
    hooks_.push_back(std::make_unique<UnitHook>(
        pass_, *layer, planned == plan_.end() ? nullptr : &*planned,
        has_unit ? std::optional(static_cast<std::size_t>(unit - units_.begin())) : std::nullopt, mode,
        roots_train, options.offload ? &offloaded_ : nullptr));
    layer->attach(hooks_.back().get());
  }
}

at::Tensor ShardedModel::accumulate(const Batch& batch, double gradient_scale, MicroBatch place) {
  for (const auto& unit : units_) unit->begin(place);
  if (batch.training) agree_on_scales();
  pass_.begin(Pass::State::kForward, batch.training);
  const at::Tensor loss = model_->loss(batch, gradient_scale);
  pass_.turn();
  loss.backward();
  pass_.end();
  return loss.detach();
}

void ShardedModel::weights_changed() {
  for (const auto& unit : units_) unit->weights_changed();
}

void ShardedModel::weights_updated() {
  for (const auto& unit : units_) {
    if (unit->trains()) unit->weights_changed();
  }
}

Score ShardedModel::evaluate(const Batch& batch) {
  return pass_.evaluate([&] { return model_->evaluate(batch); });
}

std::vector<float> ShardedModel::token_losses(const Batch& batch, const std::vector<std::int64_t>& tokens,
                                              const std::vector<std::int64_t>& targets) {
  const auto on_device = [this](const auto& ids) { return at::tensor(ids, at::kLong).to(device_); };
  const at::Tensor losses =
      pass_.evaluate([&] { return model_->token_losses(batch, on_device(tokens), on_device(targets)); })
          .cpu();
  groups_.world().check_failure();
  return {losses.const_data_ptr<float>(), losses.const_data_ptr<float>() + losses.numel()};
}

std::unique_ptr<Decoder> ShardedModel::decoder(const Batch& prompts) {
  return std::make_unique<RankDecoder>(pass_, model_->decoder(prompts));
}

bool ShardedModel::needs_loss_scale() const {
  // In some models the gradients of logits are rounded like the logits.
  return precision_.reduce == at::kHalf || precision_.output == at::kHalf ||
         std::any_of(plan_.begin(), plan_.end(), [](const UnitPlan& u) { return u.compute == at::kHalf; });
}

std::int64_t ShardedModel::slice_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& unit : units_) {
    bytes += static_cast<std::int64_t>(unit->master().nbytes() + unit->gradient().nbytes());
  }
  return bytes;
}

}  // namespace echelon
