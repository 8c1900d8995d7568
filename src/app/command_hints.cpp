#include "app/command_hints.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/str.h"
#include "recipe/keys/keys.h"

namespace echelon::app {
namespace {

constexpr std::array<std::string_view, 12> kOfTheTool{"ls",     "inspect", "verify",  "consolidate",
                                                      "export", "view",    "salvage", "diff",
                                                      "import", "reshard", "prune",   "gc"};

/// Options of mpirun, torchrun, accelerate and Slurm.
constexpr std::array<std::string_view, 7> kRanks{
    "-n", "-np", "--np", "--nproc_per_node", "--nproc-per-node", "--num_processes", "--ntasks"};

std::string hint_for_option(const std::string& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string key = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  if (key.find('.') != key.npos && recipe::is_section(key.substr(0, key.find('.'))))
    return str("a recipe's keys are given without dashes: ", key,
               word.find('=') == word.npos ? "=VALUE" : word.substr(name.size()));
  if (std::ranges::find(kRanks, name) == kRanks.end()) return "";
  return command == "submit" || command == "plan"
             ? "the number of ranks is --nodes N times --tasks-per-node M"
             : "the number of local ranks is --ranks N";
}

}  // namespace

std::string hint_for(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  if (std::ranges::find(kOfTheTool, words[0]) != kOfTheTool.end())
    return str("'echelon-ckpt ", words[0], "' does that");
  for (const std::string& word : words) {
    const std::string hint = word.starts_with('-') ? hint_for_option(words[0], word) : "";
    if (!hint.empty()) return printable(hint);
  }
  return "";
}

}  // namespace echelon::app
