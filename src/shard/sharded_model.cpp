#include "shard/sharded_model.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shard/layer_hook.h"

namespace echelon {
namespace {

/// Maximum number of reductions in flight. Each holds the whole gradients of its unit.
constexpr std::size_t kReducesInFlight = 2;

std::vector<std::size_t> counting(std::size_t n, std::size_t first) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = first; i < n; ++i) numbers.push_back(i);
  return numbers;
}

}  // namespace

ShardedModel::ShardedModel(std::unique_ptr<Model> model, Communicator& comm, const EngineOptions& options,
                           std::uint64_t seed, at::Device device)
    : model_(std::move(model)),
      activity_(options.activity),
      frames_(*activity_),
      options_(options.shard),
      precision_(resolve(options.precision)),
      device_(device),
      groups_(options.shard, comm, options.ranks_per_node),
      pool_(device, {.on_allocate =
                         [this](void* buffer, std::size_t bytes) {
                           for (Communicator* group : gathering_groups())
                             group->register_buffer(buffer, bytes);
                         },
                     .on_free =
                         [this](void* buffer) {
                           for (Communicator* group : gathering_groups()) group->forget_buffer(buffer);
                         }}),
      copies_(device),
      offloaded_(copies_),
      plan_(plan_units(*model_, options.shard, options.precision)) {
  make_units(options);
  attach_hooks(options.activations);
  if (options.trains && options.initialize) initialize(seed);
}

void ShardedModel::initialize(std::uint64_t seed) {
  for (const auto& unit : units_) unit->initialize(seed);
  weights_changed();
}

std::vector<Communicator*> ShardedModel::gathering_groups() const {
  std::vector<Communicator*> groups{&groups_.shard()};
  if (groups_.keep() != nullptr) groups.push_back(groups_.keep());
  return groups;
}

ShardedModel::Times ShardedModel::times() const {
  Times times = times_;
  const double gathers_s = groups_.world().stream_gather_wait_s();
  times.gather_wait_s += gathers_s;
  times.reduce_wait_s += groups_.world().stream_wait_s() - gathers_s;
  return times;
}

ShardedModel::~ShardedModel() {
  for (Layer* layer : all_layers(*model_)) layer->attach(nullptr);
}

void ShardedModel::make_units(const EngineOptions& options) {
  const Strategy strategy = strategy_of(options.shard);
  const UnitSetup setup{.groups = &groups_,
                        .pool = &pool_,
                        .copies = &copies_,
                        .strategy = strategy,
                        .precision = precision_,
                        .reduce_at_end = strategy.reduce_at_end || options.reduce_at_end,
                        .offload = options.shard.offload == Offload::kCpu,
                        .trains = options.trains};
  for (const UnitPlan& plan : plan_) {
    if (plan.parameters.empty()) continue;
    units_.push_back(std::make_unique<Unit>(plan, setup));
    if (plan.layer == nullptr) roots_.push_back(units_.back().get());
  }
  uses_.assign(units_.size(), 0);
  reduced_.assign(units_.size(), false);
  forward_order_ = PrefetchOrder(counting(units_.size(), roots_.size()));
}

void ShardedModel::attach_hooks(const ActivationCheckpointingOptions& options) {
  const RecomputePlan recompute(*model_, options);
  for (Layer* layer : all_layers(*model_)) {
    const auto planned =
        std::find_if(plan_.begin(), plan_.end(), [&](const UnitPlan& p) { return p.layer == layer; });
    const RecomputePlan::Mode mode = recompute.mode(*layer);
    if (planned == plan_.end() && mode == RecomputePlan::Mode::kNone) continue;
    const auto unit =
        std::find_if(units_.begin(), units_.end(), [&](const auto& u) { return u->plan().layer == layer; });
    const bool has_unit = unit != units_.end();
    hooks_.push_back(std::make_unique<Hook>(
        *this, *layer, planned == plan_.end() ? nullptr : &*planned,
        has_unit ? std::optional(static_cast<std::size_t>(unit - units_.begin())) : std::nullopt, mode,
        options.offload));
    layer->attach(hooks_.back().get());
  }
}

void ShardedModel::begin_pass(bool training) {
  training_ = training;
  recomputing_ = 0;
  post_forward_.clear();
  prefetch();
  for (Unit* root : roots_) unshard(*root);
}

void ShardedModel::prefetch() {
  const HostTime host(times_);
  forward_order_.restart();
  for (Unit* root : roots_) root->start_unshard();
  if (const auto first = forward_order_.ahead(1)) prefetch_unit(*first);
}

void ShardedModel::prefetch_unit(std::size_t index) {
  Unit& unit = *units_[index];
  if (unit.gathered()) return;
  const std::int64_t cap = options_.max_gathered_bytes;
  if (cap > 0 && pool_.bytes(Use::kGathered).live + unit.gathered_bytes() > cap) return;
  unit.start_unshard();
}

void ShardedModel::prefetch_forward() {
  for (std::int64_t i = 1; i <= options_.forward_prefetch; ++i) {
    const auto next = forward_order_.ahead(static_cast<std::size_t>(i));
    if (next) prefetch_unit(*next);
  }
}

void ShardedModel::prefetch_backward() {
  const auto next = backward_order_.ahead(1);
  if (next && units_[*next]->plan().weights_in_backward) prefetch_unit(*next);
}

void ShardedModel::unshard(Unit& unit) {
  unit.start_unshard();
  const WaitingTime waiting(times_.gather_wait_s, *activity_, SpanKind::kGatherWait, unit.name());
  unit.finish_unshard();
}

void ShardedModel::reduce(std::size_t index) {
  Unit& unit = *units_[index];
  if (unit.trains()) {
    const WaitingTime waiting(times_.reduce_wait_s, *activity_, SpanKind::kReduceWait,
                              reducing_.empty() ? std::string_view() : reducing_.front()->name());
    while (reducing_.size() >= kReducesInFlight) {
      reducing_.front()->finish_reduce();
      landing_.push_back(reducing_.front());
      reducing_.pop_front();
    }
    // The copy awaited here was started that many units ago, so the host rarely blocks.
    while (landing_.size() > kReducesInFlight) {
      landing_.front()->land();
      landing_.pop_front();
    }
  }
  const HostTime host(times_);
  unit.start_reduce();
  reduced_[index] = true;
  if (unit.trains()) reducing_.push_back(&unit);
  if (options_.backward_prefetch == BackwardPrefetch::kPost) prefetch_backward();
}

at::Tensor ShardedModel::accumulate(const Batch& batch, double gradient_scale, MicroBatch place) {
  for (const auto& unit : units_) unit->begin(place);
  std::fill(uses_.begin(), uses_.end(), 0);
  std::fill(reduced_.begin(), reduced_.end(), false);
  begin_pass(true);
  const at::Tensor loss = model_->loss(batch, gradient_scale);
  // The expected order of backward: units in reverse order of the ends of their forward.
  std::reverse(post_forward_.begin(), post_forward_.end());
  backward_order_ = PrefetchOrder(post_forward_);
  loss.backward();
  frames_.end_all();
  // Units whose input has no gradient (embeddings), and the roots, are complete only now. Unused units are
  // reduced too, so all ranks issue the same operations in the same order.
  for (std::size_t i = units_.size(); i-- > 0;) {
    if (!reduced_[i]) reduce(i);
  }
  return loss.detach();
}

void ShardedModel::finish_gradients() {
  const WaitingTime waiting(times_.reduce_wait_s, *activity_, SpanKind::kReduceWait, "all units");
  for (Unit* unit : reducing_) {
    unit->finish_reduce();
    landing_.push_back(unit);
  }
  reducing_.clear();
  for (Unit* unit : landing_) unit->land();
  landing_.clear();
}

void ShardedModel::begin_recompute() {
  ++recomputing_;
  if (const std::string* unit = frames_.innermost()) frames_.begin(SpanKind::kRecompute, *unit);
}

void ShardedModel::recomputed() {
  if (const std::string* unit = frames_.innermost()) frames_.end(SpanKind::kRecompute, *unit);
}

void ShardedModel::weights_changed() {
  for (const auto& unit : units_) unit->weights_changed();
}

void ShardedModel::weights_updated() {
  for (const auto& unit : units_) {
    if (unit->trains()) unit->weights_changed();
  }
}

template <class F>
auto ShardedModel::without_gradients(const F& compute) {
  const at::NoGradGuard no_grad;
  begin_pass(false);
  auto result = compute();
  for (Unit* root : roots_) root->release_after_forward(false);
  return result;
}

Score ShardedModel::evaluate(const Batch& batch) {
  return without_gradients([&] { return model_->evaluate(batch); });
}

at::Tensor ShardedModel::token_losses(const Batch& batch, const at::Tensor& tokens,
                                      const at::Tensor& targets) {
  return without_gradients([&] { return model_->token_losses(batch, tokens, targets); });
}

/// Runs each pass of a model's decoder with gathered weights and without autograd.
class ShardedModel::RankDecoder final : public Decoder {
 public:
  RankDecoder(ShardedModel& owner, std::unique_ptr<Decoder> decoder)
      : owner_(owner), decoder_(std::move(decoder)) {}
  at::Tensor start() override {
    return owner_.without_gradients([&] { return decoder_->start(); });
  }
  at::Tensor step(const at::Tensor& ids) override {
    return owner_.without_gradients([&] { return decoder_->step(ids); });
  }
  void reorder(const at::Tensor& rows) override { decoder_->reorder(rows); }

 private:
  ShardedModel& owner_;
  std::unique_ptr<Decoder> decoder_;
};

std::unique_ptr<Decoder> ShardedModel::decoder(const Batch& prompts) {
  return std::make_unique<RankDecoder>(*this, model_->decoder(prompts));
}

bool ShardedModel::computes_in(at::ScalarType type) const {
  return std::any_of(plan_.begin(), plan_.end(), [&](const UnitPlan& unit) { return unit.compute == type; });
}

bool ShardedModel::needs_loss_scale() const {
  // In some models the gradients of logits are rounded like the logits.
  return computes_in(at::kHalf) || precision_.reduce == at::kHalf || precision_.output == at::kHalf;
}

std::int64_t ShardedModel::slice_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& unit : units_) {
    bytes += static_cast<std::int64_t>(unit->master().nbytes() + unit->gradient().nbytes());
  }
  return bytes;
}

}  // namespace echelon
