#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "base/str.h"
#include "recipe/translate/collected.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

constexpr const char* kWarmup = "schedule.warmup_steps";
constexpr std::string_view kSchedules =
    "cosine=warmup_cosine cosine_with_min_lr=warmup_cosine constant=constant "
    "constant_with_warmup=linear_warmup";

/// `share` of the run's steps, at most `most`, rounded as there: up by transformers, down by the others.
std::int64_t share_of(double share, std::int64_t steps, std::int64_t most, Trainer trainer) {
  const double exact = share * static_cast<double>(steps);
  const double whole = takes_arguments(trainer) ? std::ceil(exact) : std::floor(exact);
  return std::min(static_cast<std::int64_t>(whole), most);
}

/// What a trainer warms up over if nothing says it.
std::int64_t usual_warmup(Trainer trainer, std::optional<std::int64_t> steps, bool stated,
                          Collected& recipe) {
  if (trainer == Trainer::kTorchtitan) return 200;
  const bool axolotl = trainer == Trainer::kAxolotl;
  if (!axolotl && !(trainer == Trainer::kAutoModel && stated)) return 0;
  if (steps) return axolotl ? share_of(0.03, *steps, 100, trainer) : share_of(0.1, *steps, 1000, trainer);
  recipe.remarks.push_back(
      str("no warm-up is set, which there is one of ",
          axolotl ? "3 % of the steps, at most 100" : "a tenth of the steps, at most 1000", "; set ", kWarmup,
          " by the run's steps, which `echelon train` tells first"));
  return 0;
}

std::int64_t warmup_of(Trainer trainer, std::optional<std::int64_t> steps, bool stated, Collected& recipe) {
  const Setting* count = recipe.input(kWarmup, "steps");
  const Setting* ratio = recipe.input(kWarmup, "ratio");
  if (count != nullptr) {
    if (const auto given = recipe.count_of(*count, kWarmup)) return *given;
  }
  double share = 0;
  if (ratio != nullptr && read_number(ratio->text, share).empty() && share > 0) {
    if (steps) return share_of(share, *steps, *steps, trainer);
    recipe.remark(
        *ratio, str("set ", kWarmup, " to this share of the run's steps, which `echelon train` tells first"));
  }
  return count == nullptr && ratio == nullptr ? usual_warmup(trainer, steps, stated, recipe) : 0;
}

/// The rates between which AutoModel's schedule goes, as shares of optim.lr where nothing says them.
void make_rates(Collected& recipe) {
  double lr = 0;
  double begin = 0;
  const Setting* first = recipe.input("schedule.warmup_start_factor");
  if (!read_number(recipe.made("optim.lr"), lr).empty() || lr == 0) return;
  if (first != nullptr && read_number(first->text, begin).empty()) {
    recipe.make("schedule.warmup_start_factor", str(begin / lr), first->path);
  } else {
    recipe.lines["schedule.warmup_start_factor"].value = "0.1";
  }
  recipe.make_default("schedule.min_lr", str(0.01 * lr));
}

void make_kind(const Setting* kind, Collected& recipe) {
  if (kind == nullptr) return;
  if (const auto word = equal_of(kSchedules, kind->text))
    recipe.make("schedule.kind", *word, kind->path);
  else
    recipe.remark(*kind, "schedule.kind has no equal of it");
}

/// torchtitan's first step has 1 / `warmup` of the rate, and it decays from the step after the peak.
void make_torchtitan(std::string_view decay, std::int64_t warmup, const std::string& from,
                     Collected& recipe) {
  constexpr const char* kStart = "schedule.warmup_start_factor";
  const std::string rise = warmup > 1 ? str("linear_warmup ", warmup - 1, ", ") : "";
  recipe.make("schedule.kind", "sequence", from);
  recipe.make("schedule.sequence", str("[", rise, warmup > 0 ? "constant 1, " : "", decay, "]"), from);
  recipe.lines.erase(kStart);
  if (warmup > 1) recipe.make(kStart, shortest(1.0 / static_cast<double>(warmup)), "of linear warm-up");
}

}  // namespace

void make_schedule(Trainer trainer, std::optional<std::int64_t> steps, bool stated, Collected& recipe) {
  const Setting* kind = recipe.input("schedule.kind");
  const bool linear = kind != nullptr ? kind->text == "linear"
                                      : trainer != Trainer::kAxolotl && trainer != Trainer::kAutoModel;
  if (trainer == Trainer::kAutoModel && stated) {
    recipe.lines["schedule.kind"].value = "warmup_cosine";
    make_rates(recipe);
  }
  recipe.lines.erase(kWarmup);
  if (is_by_transformers(trainer) && kind != nullptr && kind->text == "constant") {
    if (const Setting* given = recipe.input(kWarmup))
      recipe.remark(*given, "their constant rate has no warm-up; schedule.kind: linear_warmup has one");
    return make_kind(kind, recipe);
  }
  const std::int64_t warmup = warmup_of(trainer, steps, stated, recipe);
  const std::string from(kind != nullptr ? kind->path : kTheirDefault);
  if (trainer == Trainer::kTorchtitan && (linear || kind->text == "cosine"))
    return make_torchtitan(linear ? "linear_decay" : "cosine", warmup, from, recipe);
  if (linear) {
    recipe.make("schedule.kind", "sequence", from);
    recipe.make("schedule.sequence",
                warmup > 0 ? str("[linear_warmup ", warmup, ", linear_decay]") : "[linear_decay]", from);
    return;
  }
  make_kind(kind, recipe);
  if (warmup == 0) return;
  if (recipe.made("schedule.kind") == "constant") recipe.make("schedule.kind", "linear_warmup", from);
  recipe.make(kWarmup, std::to_string(warmup), "of linear warm-up");
}

}  // namespace echelon::recipe
