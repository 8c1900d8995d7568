#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/prove/differences.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// A run of the product beside the reference.
struct Proved {
  std::string name;  ///< ranks, strategy, batch, recomputation
  std::vector<Difference> differences;
  [[nodiscard]] bool holds() const { return std::ranges::all_of(differences, &Difference::holds); }
};

/// Runs that are compared in the same respects.
struct ProofPart {
  std::string title;
  std::vector<Proved> runs;
};

struct Proof {
  std::vector<ProofPart> parts;
  std::vector<std::string> not_compared;  ///< of this recipe, one line each
  double seconds = 0;

  /// The run that exceeded a bound first; null: none did.
  [[nodiscard]] const Proved* first_failure() const;
};

/// Called when a part begins and when a run of it was compared.
using OnProved = std::function<void(const ProofPart& part)>;

/// Trains a small form of `recipe` in many ways on up to `ranks` ranks and compares each run with the
/// reference (src/reference), in `folder`, which exists and is empty. Throws the error of a run that
/// fails.
[[nodiscard]] Proof prove(const Recipe& recipe, int ranks, const std::filesystem::path& folder,
                          const OnProved& on_proved);

}  // namespace echelon::app
