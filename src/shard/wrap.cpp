#include "shard/wrap.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "shard/layout.h"

namespace echelon {
namespace {

void collect(Layer& layer, std::vector<Layer*>& found) {
  found.push_back(&layer);
  for (const auto& inner : layer.layers()) collect(*inner, found);
}

std::int64_t whole_numel(const Layer& layer) {
  std::int64_t total = 0;
  for (const auto& parameter : layer.parameters()) total += parameter->numel();
  for (const auto& inner : layer.layers()) total += whole_numel(*inner);
  return total;
}

/// Adds the layers that become units to `chosen`. Returns the number of parameters of `layer` that are now in
/// a unit.
std::int64_t wrap_by_size(Layer& layer, const WrapOptions& options, std::set<const Layer*>& chosen) {
  const std::int64_t numel = whole_numel(layer);
  if (numel < options.min_params) return 0;
  std::int64_t inside = 0;
  for (const auto& inner : layer.layers()) inside += wrap_by_size(*inner, options, chosen);
  if (numel - inside < options.min_params || matches_any(options.exclude, layer.name())) return inside;
  chosen.insert(&layer);
  return numel;
}

std::set<const Layer*> chosen_layers(const Model& model, const WrapOptions& options) {
  std::set<const Layer*> chosen;
  const std::vector<Layer*> layers = all_layers(model);
  switch (options.policy) {
    case WrapPolicy::kTransformer:
      for (const Layer* layer : layers) {
        if (layer->role() != Layer::Role::kPart) chosen.insert(layer);
      }
      break;
    case WrapPolicy::kSizeBased:
      for (const std::string& pattern : options.exclude) require_match("shard.wrap.exclude", pattern, layers);
      for (const auto& layer : model.layers()) wrap_by_size(*layer, options, chosen);
      break;
    case WrapPolicy::kModules:
      for (const std::string& pattern : options.modules) require_match("shard.wrap.modules", pattern, layers);
      for (const Layer* layer : layers) {
        if (matches_any(options.modules, layer->name())) chosen.insert(layer);
      }
      break;
    case WrapPolicy::kNone: break;
  }
  return chosen;
}

/// Assigns parameters to units in one walk over the tree.
class Planner {
 public:
  Planner(const Model& model, const ShardOptions& options, const PrecisionOptions& precision)
      : model_(model),
        options_(options),
        overrides_(precision.overrides),
        weights_(strategy_of(options).weights),
        chosen_(chosen_layers(model, options.wrap)) {
    const at::ScalarType compute = resolve(precision).param;
    // The root is used from the first layer to the last, so it stays for the whole pass.
    units_.push_back({.name = "root",
                      .compute = compute,
                      .outer = compute,
                      .weights = std::max(weights_, Strategy::Weights::kPass)});
  }

  std::vector<UnitPlan> plan() {
    for (const auto& layer : model_.layers()) visit(*layer, 0, {});
    std::vector<UnitPlan> apart;  // roots of other types, because all of a unit is gathered in one
    for (const Model::Shared& shared : model_.shared()) {
      UnitPlan& home = units_[home_of(shared)];
      const at::ScalarType compute =
          shared.users.empty() ? home.compute : units_[unit_of_.at(shared.users.back())].compute;
      if (compute == home.compute) {
        home.parameters.push_back(shared.parameter.get());
        continue;
      }
      apart.push_back(units_[0]);
      apart.back().name = "root.shared";
      apart.back().parameters = {shared.parameter.get()};
      apart.back().compute = apart.back().outer = compute;
    }
    part_fp8();
    split_root("root.trained", [](const Parameter* parameter) { return parameter->trained(); });
    units_.insert(units_.begin() + 1, apart.begin(), apart.end());
    return std::move(units_);
  }

 private:
  using Path = std::vector<const Layer*>;

  void visit(Layer& layer, std::size_t unit, Path path) {
    path.push_back(&layer);
    const FloatType* type = last_match(overrides_, typed_by(layer).name());
    const at::ScalarType compute = type != nullptr ? scalar_type(*type) : units_[unit].compute;
    if (chosen_.count(&layer) > 0 || compute != units_[unit].compute) unit = add_unit(layer, unit, compute);
    for (const auto& parameter : layer.parameters()) units_[unit].parameters.push_back(parameter.get());
    unit_of_[&layer] = unit;
    path_of_[&layer] = path;
    for (const auto& inner : layer.layers()) visit(*inner, unit, path);
  }

  /// The layer whose type `layer` has: of those that share a weight the last, which multiplies by it.
  [[nodiscard]] const Layer& typed_by(const Layer& layer) const {
    for (const Model::Shared& shared : model_.shared()) {
      if (std::ranges::find(shared.users, &layer) != shared.users.end()) return *shared.users.back();
    }
    return layer;
  }

  std::size_t add_unit(Layer& layer, std::size_t around, at::ScalarType compute) {
    UnitPlan unit{.name = layer.name(),
                  .layer = &layer,
                  .depth = units_[around].depth + 1,
                  .compute = compute,
                  .outer = units_[around].compute,
                  .weights = weights_,
                  .weights_in_backward = layer.role() != Layer::Role::kEmbedding};
    const bool* reshard = last_match(options_.reshard_overrides, layer.name());
    if (reshard != nullptr && weights_ != Strategy::Weights::kStep) {
      unit.weights = *reshard ? Strategy::Weights::kLayer : Strategy::Weights::kPass;
    }
    units_.push_back(std::move(unit));
    return units_.size() - 1;
  }

  void part_fp8() {
    if (units_[0].compute != at::kBFloat16) return;
    const auto is_fp8 = [](const Parameter* parameter) { return parameter->fp8; };
    for (UnitPlan& unit : units_ | std::views::drop(1)) {
      if (unit.compute != at::kBFloat16 || std::ranges::none_of(unit.parameters, is_fp8)) continue;
      const auto rest = std::ranges::stable_partition(unit.parameters, is_fp8);
      units_[0].parameters.insert(units_[0].parameters.end(), rest.begin(), rest.end());
      unit.parameters.erase(rest.begin(), rest.end());
    }
    split_root("root.fp8", is_fp8);
    for (UnitPlan& unit : units_) {
      unit.fp8 = unit.compute == at::kBFloat16 && !unit.parameters.empty() &&
                 std::ranges::all_of(unit.parameters, is_fp8);
    }
  }

  /// Makes a second root of those that `chosen` picks, unless it picks all or none.
  void split_root(const char* name, const std::function<bool(const Parameter*)>& chosen) {
    auto& parameters = units_[0].parameters;
    const auto second = std::ranges::stable_partition(parameters, std::not_fn(chosen));
    if (second.empty() || second.size() == parameters.size()) return;
    UnitPlan unit = units_[0];
    unit.name = name;
    unit.parameters.assign(second.begin(), second.end());
    parameters.erase(second.begin(), second.end());
    units_.insert(units_.begin() + 1, std::move(unit));
  }

  /// The unit of the innermost layer that contains all users; the root if there is none.
  std::size_t home_of(const Model::Shared& shared) const {
    if (shared.users.empty()) return 0;
    Path common = path_of_.at(shared.users.at(0));
    for (const Layer* user : shared.users) {
      const Path& path = path_of_.at(user);
      const auto end = std::mismatch(common.begin(), common.end(), path.begin(), path.end()).first;
      common.erase(end, common.end());
    }
    return common.empty() ? 0 : unit_of_.at(common.back());
  }

  const Model& model_;
  const ShardOptions& options_;
  const PatternMap<FloatType>& overrides_;
  Strategy::Weights weights_;
  std::set<const Layer*> chosen_;
  std::vector<UnitPlan> units_;
  std::map<const Layer*, std::size_t> unit_of_;
  std::map<const Layer*, Path> path_of_;
};

}  // namespace

std::int64_t UnitPlan::numel() const {
  std::int64_t total = 0;
  for (const Parameter* parameter : parameters) total += parameter->numel();
  return total;
}

std::int64_t UnitPlan::trained_numel() const {
  std::int64_t total = 0;
  for (const Parameter::Part* part : parts_of(parameters)) total += part->frozen ? 0 : part->numel();
  return total;
}

std::vector<Layer*> all_layers(const Model& model) {
  std::vector<Layer*> found;
  for (const auto& layer : model.layers()) collect(*layer, found);
  return found;
}

void require_match(const std::string& key, const std::string& pattern, const std::vector<Layer*>& layers) {
  const auto named = [&](const Layer* layer) { return matches(pattern, layer->name()); };
  if (std::any_of(layers.begin(), layers.end(), named)) return;
  std::vector<std::string> some;
  for (const Layer* layer : layers) {
    if (some.size() < 8) some.push_back(layer->name());
  }
  throw Error(Code::kUsage, key, ": pattern '", pattern, "' matches no module; this model has ",
              join(some, ", "), layers.size() > some.size() ? ", ..." : "",
              " (echelon plan RECIPE --units lists them)");
}

std::vector<UnitPlan> plan_units(const Model& model, const ShardOptions& options,
                                 const PrecisionOptions& precision) {
  const std::vector<Layer*> layers = all_layers(model);
  for (const auto& [pattern, value] : precision.overrides) {
    require_match("precision.overrides", pattern, layers);
  }
  for (const auto& [pattern, value] : options.reshard_overrides) {
    require_match("shard.reshard_overrides", pattern, layers);
  }
  std::vector<UnitPlan> units = Planner(model, options, precision).plan();
  const Precision types = resolve(precision);
  for (UnitPlan& unit : units) unit.master = unit.trained_numel() == 0 ? types.frozen : types.master;
  return units;
}

}  // namespace echelon
