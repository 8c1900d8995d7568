#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/plan/planner.h"

namespace echelon::app {

/// A change of the recipe, as overrides for the command line, and what the run would then be like.
struct Proposal {
  std::vector<std::string> overrides;  ///< empty: the recipe as it is
  Plan plan;
};

/// The result of the search.
struct FitResult {
  Plan as_it_is;
  std::vector<Proposal> fitting;       ///< best first
  std::optional<Proposal> nearest;     ///< if nothing fits: what needs least memory
  std::optional<Proposal> more_nodes;  ///< if nothing fits: that change on the fewest nodes where it does
  std::string why_no_more_nodes;       ///< why the recipe does not go on that many ranks; empty: it does
};

/// The recipe with these overrides added; throws Error(kUsage) where they contradict each other.
using WithOverrides = std::function<Recipe(const std::vector<std::string>& overrides)>;

/// Searches for changes with which a rank's memory suffices: strategy, recomputation, and micro-batch (with
/// more passes, so that a step trains on the same samples). If these do not suffice, it also tries offload,
/// then precision. The best change gives the shortest step; if times are unknown, the fewest operations, then
/// the least traffic. Throws Error(kUsage) if there is no limit of memory.
[[nodiscard]] FitResult find_fit(const Planner& planner, const WithOverrides& recipe);

/// The fewest nodes, a power of two, on which the recipe trains on `tokens` within `days`, and fits. Throws
/// Error(kUsage) if no number does, or times are unknown.
[[nodiscard]] Plan nodes_for(const Planner& planner, const Recipe& recipe, double tokens, double days);

/// What a change with offload takes of the hosts, whose memory the search does not know:
/// ", 212.4 GiB of each node's host memory"; empty for others.
[[nodiscard]] std::string host_memory(const Proposal& proposal);

/// Lines for people: a table, and overrides ready to paste.
[[nodiscard]] std::string describe(const FitResult& result);
[[nodiscard]] std::string to_json(const FitResult& result);

}  // namespace echelon::app
