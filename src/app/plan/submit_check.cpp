#include "app/plan/submit_check.h"

#include <algorithm>

#include "app/plan/fit.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/str.h"
#include "recipe/parse.h"

namespace echelon::app {
namespace {

/// The device called `name`, or the one with most memory of "a100-40g" and "a100-80g" for "a100": what does
/// not fit it fits none of them. Empty if there is none.
std::string largest_of(const std::string& name) {
  std::string largest;
  double bytes = 0;
  for (const std::string& known : forecast::device_names()) {
    if (known != name && !known.starts_with(name + '-')) continue;
    const double memory = forecast::find_device(known).memory_bytes;
    if (memory > bytes) largest = known;
    bytes = std::max(bytes, memory);
  }
  return largest;
}

Recipe with(const LoadedRecipe& loaded, const std::vector<std::string>& overrides) {
  const auto includes_nothing = [](const std::filesystem::path&) { return std::string(); };
  return recipe::parse_recipe_text("recipe", to_yaml(loaded.recipe), overrides, includes_nothing).recipe;
}

std::string advice(const Planner& planner, const LoadedRecipe& loaded) {
  const FitResult result =
      find_fit(planner, [&](const std::vector<std::string>& added) { return with(loaded, added); });
  if (!result.fitting.empty()) {
    const Proposal& best = result.fitting.front();
    return str("this fits: ", join(best.overrides, " "), host_memory(best));
  }
  if (result.more_nodes) {
    return str("this fits, on ", result.more_nodes->plan.options.job.nodes(),
               " nodes: ", join(result.more_nodes->overrides, " "), host_memory(*result.more_nodes));
  }
  return "no change that `echelon plan --fit` tries fits";
}

}  // namespace

std::string device_in(const std::string& gpus_per_node, const std::string& gres) {
  for (std::string text : {gpus_per_node, gres}) {
    std::ranges::replace(text, ':', ',');
    for (const std::string& word : split(in_lower_case(text), ',')) {
      std::string device = largest_of(word);
      if (device.empty()) device = forecast::device_of_gpu(word);
      if (!device.empty()) return device;
    }
  }
  return "";
}

void require_fit(const LoadedRecipe& loaded, const PlanTarget& target) {
  if (target.gpu == "cpu" && target.memory_bytes == 0) return;
  try {
    const Planner planner(target);
    const Plan plan = planner.plan(loaded.recipe);
    if (plan.outlook.fits()) return;
    throw Error(Code::kUsage, "the recipe does not fit: a rank needs ", human_bytes(plan.outlook.peak_bytes),
                " of ", human_bytes(plan.outlook.limit_bytes), " (", plan.title.device, "); ",
                advice(planner, loaded), ". --submit-anyway submits it all the same");
  } catch (const Error& error) {
    if (error.code() != Code::kEnvironment) throw;
    log::warn(str("echelon: whether the recipe fits was not checked: ", error.what()));
  }
}

}  // namespace echelon::app
