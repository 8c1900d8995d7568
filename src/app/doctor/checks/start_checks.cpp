#include "app/doctor/checks/start_checks.h"

#include <algorithm>

#include "base/number.h"
#include "base/process/program.h"
#include "base/str.h"

namespace echelon::app::doctor {
namespace {

std::vector<Finding> faults_among(std::vector<Finding> findings) {
  std::erase_if(findings, [](const Finding& finding) { return finding.verdict != Verdict::kFault; });
  return findings;
}

/// "a,b" and "b,c" have a name in common; an empty text stands for any name.
bool share_a_name(const std::string& some, const std::string& others) {
  if (some.empty() || others.empty()) return true;
  for (const std::string& name : split(some, ',')) {
    if (str(",", others, ",").find(str(",", name, ",")) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> faults_of_data(const Recipe& recipe) {
  return faults_among({check_data(recipe), check_validation_data(recipe), check_tokenizer(recipe)});
}

Finding check_node_memory(const RecipeSize& size, int ranks_per_node, const std::vector<SlurmRecord>& nodes,
                          const std::string& partitions) {
  constexpr std::int64_t kNotConfigured = 1;  // Slurm's default for RealMemory
  constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20;
  std::int64_t most = kNotConfigured;
  for (const SlurmRecord& node : nodes) {
    std::int64_t megabytes = 0;
    if (share_a_name(partitions, node["Partitions"]) && read_integer(node["RealMemory"], megabytes).empty())
      most = std::max(most, megabytes);
  }
  if (most == kNotConfigured) return unknown("memory", "Slurm does not state the memory of its nodes");
  return judge_memory(ranks_per_node, host_bytes(size, ranks_per_node), "the cluster's largest node",
                      static_cast<std::uint64_t>(most) * kMegabyte);
}

std::vector<Finding> faults_of_size(const Recipe& recipe, int ranks, int ranks_per_node,
                                    const std::string& partitions, bool on_cpus) {
  const std::optional<RecipeSize> size = size_of(recipe, ranks, ranks_per_node);
  if (!size) return {uncountable()};
  std::vector<Finding> findings;
  const std::filesystem::path folder = nearest_folder(recipe.run.dir);
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (!error)
    findings.push_back(
        check_room(recipe, *size, {.folder = folder.string(), .available_bytes = space.available}));
  if (on_cpus) {
    constexpr double kDeadline_s = 8;
    const ProgramRun slurm = run_program({"scontrol", "--oneliner", "show", "nodes"}, kDeadline_s);
    if (slurm.good())
      findings.push_back(
          check_node_memory(*size, ranks_per_node, parse_slurm_records(slurm.out), partitions));
  }
  return faults_among(std::move(findings));
}

}  // namespace echelon::app::doctor
