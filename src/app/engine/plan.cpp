#include <ATen/core/Tensor.h>

#include <iostream>

#include "app/engine/describe_run.h"
#include "app/engine/engine.h"
#include "app/report_error.h"
#include "base/str.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "shard/layout.h"

namespace echelon::app {
namespace {

std::string bytes(std::int64_t count) {
  return human_bytes(static_cast<std::uint64_t>(count));
}

/// Computes the plan from shapes alone; needs neither weights nor ranks.
void plan(const PlanRequest& request) {
  const Recipe& recipe = request.loaded.recipe;
  const Precision precision = resolve(recipe.precision);
  const auto model = build_model(recipe.model, precision.types(), at::kMeta);
  const int group = shard_group_size(recipe.shard, request.ranks, request.ranks_per_node);
  const std::vector<UnitPlan> units = plan_units(*model, recipe.shard, recipe.precision);
  const std::int64_t state_bytes = state_bytes_per_parameter(recipe.optim);
  const auto master = static_cast<std::int64_t>(c10::elementSize(precision.master));
  std::int64_t elements = 0;
  std::int64_t largest = 0;
  std::size_t count = 0;
  for (const UnitPlan& unit : units) {
    if (unit.parameters.empty()) continue;
    const FlatLayout layout(unit.parameters, group);
    elements += layout.slice_numel();
    largest =
        std::max(largest, layout.padded_numel() * static_cast<std::int64_t>(c10::elementSize(unit.compute)));
    ++count;
  }
  std::cout << "model " << word_of(recipe.model.kind) << ": "
            << human_count(static_cast<std::uint64_t>(model->numel())) << " parameters in " << count
            << (count == 1 ? " unit" : " units") << ", largest " << bytes(largest) << " gathered\n"
            << word_of(recipe.shard.strategy) << " over " << request.ranks
            << (request.ranks == 1 ? " rank" : " ranks") << ", " << group << " to a shard group\n"
            << "kept on each rank: weights " << bytes(elements * master) << ", gradients "
            << bytes(elements * 4) << ", optimizer " << bytes(elements * state_bytes) << "; together "
            << bytes(elements * (master + 4 + state_bytes)) << '\n';
  if (!request.units) return;
  for (const std::string& line : describe_units(units, group, precision.master, state_bytes)) {
    std::cout << line << '\n';
  }
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_plan(const echelon::app::PlanRequest& request) {
  try {
    echelon::app::plan(request);
    std::cout.flush();
    return 0;
  } catch (const echelon::Error& error) {
    return echelon::app::report_error(error, "");
  } catch (const std::exception& error) {
    return echelon::app::report_error(echelon::Error(echelon::Code::kEnvironment, error.what()), "");
  }
}
