#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/launcher/step.h"
#include "app/prove/proof.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/progress_bar.h"
#include "recipe/load.h"

namespace echelon::app {
namespace {

using Json = nlohmann::ordered_json;

struct ProveArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int ranks = 2;
  bool json = false;
};

std::string short_number(double value) {
  return str(std::scientific, std::setprecision(1), value);
}

constexpr std::size_t kNameWidth = 70;
constexpr std::size_t kNumberWidth = 11;

/// What has happened to a part since the last call: its title, or its newest run.
void print_newest(const ProofPart& part) {
  if (part.runs.empty()) {
    std::cout << '\n' << part.title << std::endl;
    return;
  }
  const Proved& run = part.runs.back();
  if (part.runs.size() == 1) {
    std::string names = padded("", kNameWidth);
    std::string bounds = padded("  bound", kNameWidth);
    for (const Difference& difference : run.differences) {
      names += padded(difference.what, kNumberWidth);
      bounds += padded(short_number(difference.bound), kNumberWidth);
    }
    std::cout << names << '\n' << bounds << '\n';
  }
  std::string line = padded("  " + run.name, kNameWidth);
  for (const Difference& difference : run.differences)
    line += padded(short_number(difference.value), kNumberWidth);
  std::cout << line << (run.holds() ? "" : "  EXCEEDED") << std::endl;
}

/// Describes a run that exceeds a bound: "2 ranks, full_shard: gradients differs by 3.1e-02 in
/// 'model.norm.weight', bound 3.0e-05".
std::string describe_failure(const Proved& run) {
  const Difference& first = *std::ranges::find_if_not(run.differences, &Difference::holds);
  return str(run.name, ": ", first.what, " differs by ", short_number(first.value), " in ", first.where,
             ", bound ", short_number(first.bound));
}

void print_end(const Proof& proof) {
  std::cout << "\nnot compared:\n";
  for (const std::string& line : proof.not_compared) std::cout << "  " << line << '\n';
  if (proof.first_failure() == nullptr)
    std::cout << "\nall within bounds, " << fixed(proof.seconds, 0) << " s" << std::endl;
}

Json to_json(const Proof& proof) {
  Json parts = Json::array();
  for (const ProofPart& part : proof.parts) {
    Json runs = Json::array();
    for (const Proved& run : part.runs) {
      Json differences = Json::array();
      for (const Difference& difference : run.differences) {
        differences.push_back({{"what", difference.what},
                               {"value", difference.value},
                               {"bound", difference.bound},
                               {"where", difference.where}});
      }
      runs.push_back({{"run", run.name}, {"holds", run.holds()}, {"differences", differences}});
    }
    parts.push_back({{"title", part.title}, {"runs", runs}});
  }
  const Proved* failure = proof.first_failure();
  return {{"holds", failure == nullptr},
          {"first_failure", failure == nullptr ? Json() : Json(describe_failure(*failure))},
          {"parts", parts},
          {"not_compared", proof.not_compared},
          {"seconds", proof.seconds}};
}

/// Text is printed as it comes; with JSON a terminal shows how many runs are done.
Proof carry_out(const ProveArguments& arguments, const Recipe& recipe, const fs::Path& folder) {
  if (!arguments.json) return prove(recipe, arguments.ranks, folder, print_newest);
  ProgressBar bar("proving", "runs");
  std::uint64_t runs = 0;
  return prove(recipe, arguments.ranks, folder, [&](const ProofPart& part) {
    if (!part.runs.empty()) bar.show(++runs, 0);
  });
}

int prove_recipe(const ProveArguments& arguments) {
  if (local_ranks(0) == 0)
    throw Error(Code::kUsage, "prove starts ranks itself; run it outside of an srun or mpirun step");
  const LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
  if (loaded.recipe.data.kind == DataKind::kPreference) {
    throw Error(
        Code::kUsage,
        "prove has no reference for the loss of data.kind: preference; add data.kind=chat to prove the "
        "same model, precision and sharding");
  }
  if (!arguments.json) tell_which(loaded);
  fs::NewFolder folder(std::filesystem::temp_directory_path() / "echelon-prove-", Code::kEnvironment);
  try {
    const Proof proof = carry_out(arguments, loaded.recipe, folder.path());
    if (arguments.json) {
      std::cout << json_text(to_json(proof)) << '\n';
    } else {
      print_end(proof);
    }
    const Proved* failure = proof.first_failure();
    if (failure == nullptr) return 0;
    throw Error(Code::kTraining, "differs from the reference; first in ", describe_failure(*failure),
                "; the runs are in ", folder.path().string());
  } catch (const Error&) {
    folder.keep();
    throw;
  }
}

}  // namespace

void add_prove(CLI::App& app, int& status) {
  const auto [command, arguments] = add_command<ProveArguments>(
      app, "prove",
      "Train a small form of a recipe in many ways, and compare each with an unsharded reference",
      [&status](const ProveArguments& given) { status = prove_recipe(given); });
  command.add_option("recipe", arguments.recipe, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  command.add_option("overrides", arguments.overrides, "key.path=value, e.g. shard.strategy=no_shard");
  command.add_option("--ranks", arguments.ranks, "Most local ranks to train on")
      ->check(in_range(1, 16))
      ->capture_default_str();
  add_json(command, arguments.json);
  add_quiet(command);
  command.footer(
      "Compared are samples, gradients, the recipe's own precision, and training that goes on, is resumed "
      "and resharded; with its adapters, dropout and masks of conversations. Exits with 6 if a difference "
      "exceeds its bound.");
}

}  // namespace echelon::app
