#include "app/plan/fit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"

namespace echelon::app {
namespace {

using Overrides = std::vector<std::string>;

constexpr int kMostNodes = 4096;
constexpr std::size_t kShown = 8;

Overrides joined(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The current value, as no override, and others that differ from it.
template <class Enum>
std::vector<Overrides> values_of(const char* key, Enum current, std::initializer_list<Enum> others) {
  std::vector<Overrides> values{{}};
  for (const Enum other : others) {
    if (other != current) values.push_back({str(key, "=", word_of(other))});
  }
  return values;
}

/// True if `a` is better than `b`: see find_fit().
bool is_better(const Proposal& a, const Proposal& b) {
  const forecast::Outlook& x = a.plan.outlook;
  const forecast::Outlook& y = b.plan.outlook;
  if (x.time && y.time) return x.time->step_s < y.time->step_s;
  if (x.flops != y.flops) return x.flops < y.flops;
  if (x.traffic.sent != y.traffic.sent) return x.traffic.sent < y.traffic.sent;
  return a.overrides.size() < b.overrides.size();
}

class Search {
 public:
  Search(const Planner& planner, const WithOverrides& recipe) : planner_(planner), recipe_(recipe) {}

  FitResult run() {
    const Recipe recipe = recipe_({});
    result_.as_it_is = planner_.plan(recipe);
    if (result_.as_it_is.outlook.limit_bytes == 0)
      throw Error(Code::kUsage,
                  "--fit: there is no limit of memory; expected --memory, or --gpu with a device");
    for (const Overrides& stage : stages(recipe)) {
      try_stage(recipe, stage);
      if (!result_.fitting.empty()) break;
    }
    std::ranges::stable_sort(result_.fitting, is_better);
    if (result_.fitting.empty() && result_.nearest) look_for_nodes();
    if (!result_.fitting.empty()) result_.nearest.reset();
    return std::move(result_);
  }

 private:
  /// What is added to every change of a stage: nothing first, then what costs more.
  [[nodiscard]] std::vector<Overrides> stages(const Recipe& recipe) const {
    std::vector<Overrides> stages{{}};
    const PrecisionPreset precision = recipe.precision.preset;
    if (planner_.on_gpu()) {
      if (recipe.shard.offload == Offload::kNone) stages.push_back({"shard.offload=cpu"});
      stages.push_back({"shard.offload=cpu", "activation_checkpointing.policy=full",
                        "activation_checkpointing.offload=true"});
    }
    if (precision == PrecisionPreset::kFp32 || precision == PrecisionPreset::kNone)
      stages.push_back({str("precision.preset=", word_of(PrecisionPreset::kBf16))});
    return stages;
  }

  void try_stage(const Recipe& recipe, const Overrides& added) {
    std::vector<Overrides> strategies{{}};
    if (planner_.target().job.ranks > 1) {  // on one rank all are the same
      strategies =
          values_of("shard.strategy", recipe.shard.strategy,
                    {ShardStrategy::kFullShard, ShardStrategy::kHybridShard, ShardStrategy::kShardGradOp});
    }
    const auto policies = values_of("activation_checkpointing.policy", recipe.activation_checkpointing.policy,
                                    {RecomputePolicy::kSelective, RecomputePolicy::kFull});
    for (const Overrides& strategy : strategies) {
      for (const Overrides& policy : policies) try_batches(recipe, joined(joined(strategy, policy), added));
    }
  }

  /// From the recipe's micro-batch downwards: the largest that fits is the one to propose.
  void try_batches(const Recipe& recipe, const Overrides& change) {
    for (std::int64_t size = recipe.train.micro_batch_size; size >= 1; size /= 2) {
      Overrides overrides = change;
      if (size != recipe.train.micro_batch_size) overrides.push_back(str("train.micro_batch_size=", size));
      if (try_one(overrides)) return;
    }
  }

  bool try_one(const Overrides& overrides) {
    Proposal proposal{overrides, {}};
    try {
      proposal.plan = planner_.plan(recipe_(overrides));
    } catch (const Error& error) {
      if (error.code() != Code::kUsage) throw;
      return false;  // the keys contradict each other, or the mesh does not fit the ranks
    }
    const forecast::Outlook& outlook = proposal.plan.outlook;
    if (fits(proposal)) {
      result_.fitting.push_back(std::move(proposal));
      return true;
    }
    if (!result_.nearest || outlook.peak_bytes < result_.nearest->plan.outlook.peak_bytes)
      result_.nearest = std::move(proposal);
    return false;
  }

  /// A change is proposed if it fits although the prediction is as wrong as it was ever seen to be.
  [[nodiscard]] bool fits(const Proposal& proposal) const {
    constexpr double kRoom = 0.05;
    constexpr double kLibraries = 16 << 20;  // what they touch in a process of CPU ranks, more or less
    const forecast::Outlook& outlook = proposal.plan.outlook;
    const double room = kRoom * outlook.limit_bytes + (planner_.on_gpu() ? 0 : kLibraries);
    return proposal.overrides.empty() ? outlook.fits() : outlook.peak_bytes + room <= outlook.limit_bytes;
  }

  void look_for_nodes() {
    forecast::JobShape job = planner_.target().job;
    while (job.nodes() * 2 <= kMostNodes) {
      job.ranks *= 2;
      try {
        Plan plan = planner_.plan(recipe_(result_.nearest->overrides), job);
        Proposal more{result_.nearest->overrides, std::move(plan)};
        if (!fits(more)) continue;
        result_.more_nodes = std::move(more);
        return;
      } catch (const Error& error) {
        if (error.code() != Code::kUsage) throw;
        result_.why_no_more_nodes = error.what();
        return;
      }
    }
  }

  const Planner& planner_;
  const WithOverrides& recipe_;
  FitResult result_;
};

double host_bytes_per_node(const Proposal& proposal) {
  const forecast::JobShape& job = proposal.plan.options.job;
  return static_cast<double>(proposal.plan.rehearsed.memory.host_peak) *
         static_cast<double>(std::min(job.ranks, job.ranks_per_node));
}

std::string row(const Proposal& proposal) {
  const forecast::Outlook& outlook = proposal.plan.outlook;
  std::string text = str("  ", human_bytes(outlook.peak_bytes));
  if (outlook.time) text += str(", step ", std::lround(outlook.time->step_s * 1e3), " ms");
  const Overrides& overrides = proposal.overrides;
  return str(text, host_memory(proposal), ": ",
             overrides.empty() ? "(the recipe as it is)" : join(overrides, " "), '\n');
}

nlohmann::json to_json(const Proposal& proposal) {
  nlohmann::json json{{"overrides", proposal.overrides},
                      {"peak_bytes", proposal.plan.outlook.peak_bytes},
                      {"node_host_bytes", host_bytes_per_node(proposal)},
                      {"nodes", proposal.plan.options.job.nodes()}};
  if (proposal.plan.outlook.time) json["step_time_s"] = proposal.plan.outlook.time->step_s;
  return json;
}

}  // namespace

FitResult find_fit(const Planner& planner, const WithOverrides& recipe) {
  return Search(planner, recipe).run();
}

Plan nodes_for(const Planner& planner, const Recipe& recipe, double tokens, double days) {
  constexpr double kDay_s = 86'400;
  if (gives_images(recipe.data.kind))
    throw Error(
        Code::kUsage, "--tokens: data.kind: ", word_of(recipe.data.kind),
        " gives images, which have no tokens; leave out --tokens and --days, and compare what the plans "
        "of several --nodes print: samples/s and, with train.steps, the time of the run");
  forecast::JobShape job = planner.target().job;
  double best = 0;
  for (; job.nodes() <= kMostNodes; job.ranks *= 2) {
    Plan plan;
    try {
      plan = planner.plan(recipe, job);
    } catch (const Error& error) {
      if (error.code() != Code::kUsage) throw;
      continue;  // the batch cannot be divided among so many
    }
    if (!plan.outlook.time)
      throw Error(Code::kUsage,
                  "--tokens: the time of a step is unknown; expected --gpu with a device's profile");
    const double trained = plan.outlook.time->tokens_per_s * plan.outlook.time->trains * days * kDay_s;
    if (plan.outlook.fits()) best = std::max(best, trained);
    if (plan.outlook.fits() && trained >= tokens) return plan;
  }
  throw Error(Code::kUsage, "--tokens ", tokens, " within --days ", days, ": not on up to ", kMostNodes,
              " nodes with this recipe (at most ", human_count(static_cast<std::uint64_t>(best)),
              " tokens); raise train.global_batch_size, or see --fit");
}

std::string host_memory(const Proposal& proposal) {
  if (!proposal.plan.rehearsed.memory.offloaded) return "";
  return str(", ", human_bytes(host_bytes_per_node(proposal)), " of each node's host memory");
}

std::string describe(const FitResult& result) {
  const forecast::Outlook& now = result.as_it_is.outlook;
  std::string text = str("as it is: ", human_bytes(now.peak_bytes), " of ", human_bytes(now.limit_bytes),
                         now.fits() ? ": fits" : ": does NOT fit");
  if (result.as_it_is.title.unproven) text += str(" (", forecast::kUnproven, ')');
  text += '\n';
  if (result.fitting.empty()) {
    text += str("nothing that was tried fits");
    if (result.nearest) {
      const double peak = result.nearest->plan.outlook.peak_bytes;
      text +=
          str("; least memory, ", human_bytes(peak - now.limit_bytes), " too much:\n", row(*result.nearest));
    }
    if (result.more_nodes) {
      text += str("it fits on ", result.more_nodes->plan.options.job.nodes(), " nodes:\n",
                  row(*result.more_nodes));
    } else {
      text += str("more nodes do not help",
                  result.why_no_more_nodes.empty() ? "" : str(" (", result.why_no_more_nodes, ')'),
                  "; a smaller model, a shorter data.seq_len or a larger device would\n");
    }
    return text;
  }
  text += "fits, best first:\n";
  for (std::size_t i = 0; i < std::min(kShown, result.fitting.size()); ++i) text += row(result.fitting[i]);
  return text;
}

std::string to_json(const FitResult& result) {
  nlohmann::json json{{"fits", !result.fitting.empty()},
                      {"as_it_is",
                       {{"fits", result.as_it_is.outlook.fits()},
                        {"peak_bytes", result.as_it_is.outlook.peak_bytes},
                        {"limit_bytes", result.as_it_is.outlook.limit_bytes}}},
                      {"proposals", nlohmann::json::array()}};
  for (const Proposal& proposal : result.fitting) json["proposals"].push_back(to_json(proposal));
  if (result.nearest) json["nearest"] = to_json(*result.nearest);
  if (result.more_nodes) json["more_nodes"] = to_json(*result.more_nodes);
  return json.dump(2) + '\n';
}

}  // namespace echelon::app
