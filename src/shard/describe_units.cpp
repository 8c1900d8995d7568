#include <cctype>

#include "base/number.h"
#include "base/str.h"
#include "shard/layout.h"
#include "shard/wrap.h"

namespace echelon {
namespace {

/// "model.layers.3.mlp" -> "model.layers.#.mlp": units of one kind.
std::string kind_of(const std::string& name) {
  std::string kind;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) {
      kind += c;
    } else if (kind.empty() || kind.back() != '#') {
      kind += '#';
    }
  }
  return kind;
}

std::string_view stays(Strategy::Weights weights) {
  switch (weights) {
    case Strategy::Weights::kLayer: return "";
    case Strategy::Weights::kPass: return ", until its backward";
    case Strategy::Weights::kStep: return ", until the optimizer's step";
  }
  return "";
}

std::string line_of(const UnitPlan& unit, std::size_t count, const std::string& last, int shard_ranks,
                    const StateBytes& state_bytes) {
  const FlatLayout layout(unit.parameters, shard_ranks);
  const auto width = unit.fp8 ? 1 : static_cast<std::int64_t>(c10::elementSize(unit.compute));
  const std::int64_t trained = unit.trained_numel();
  std::int64_t state = 0;
  for (const Parameter::Part* part : parts_of(unit.parameters))
    state += part->frozen ? 0 : part->numel() * state_bytes(*part);
  const std::int64_t slice = layout.slice_numel() * static_cast<std::int64_t>(c10::elementSize(unit.master)) +
                             (trained == 0 ? 0 : layout.slice_numel() * 4) +
                             (state + shard_ranks - 1) / shard_ranks;
  const std::string indent(2 * static_cast<std::size_t>(unit.depth), ' ');
  const std::string name = count > 1 ? str(unit.name, " to ", last, " (", count, " units)") : unit.name;
  return str(padded(str(indent, name), 59), human_count(static_cast<std::uint64_t>(layout.numel())),
             count > 1 ? " parameters each, " : " parameters, ",
             unit.fp8 ? "fp8" : name_of(dtype_of(unit.compute)), ", gathered ",
             human_bytes(layout.padded_numel() * width), ", kept ", human_bytes(slice), " a rank",
             stays(unit.weights),
             trained == 0               ? ", frozen"
             : trained < layout.numel() ? ", in part frozen"
                                        : "");
}

}  // namespace

std::vector<std::string> describe_units(const std::vector<UnitPlan>& units, int shard_ranks,
                                        const StateBytes& state_bytes) {
  // Groups units of the same kind, size, type and lifetime, of which as much is trained; lines are in the
  // order of first appearance.
  std::vector<std::string> lines;
  std::vector<bool> printed(units.size(), false);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (printed[i] || units[i].parameters.empty()) continue;
    std::size_t count = 0;
    std::string last;
    for (std::size_t k = i; k < units.size(); ++k) {
      if (kind_of(units[k].name) != kind_of(units[i].name) || units[k].numel() != units[i].numel() ||
          units[k].compute != units[i].compute || units[k].weights != units[i].weights ||
          units[k].trained_numel() != units[i].trained_numel()) {
        continue;
      }
      printed[k] = true;
      last = units[k].name;
      ++count;
    }
    lines.push_back(line_of(units[i], count, last, shard_ranks, state_bytes));
  }
  return lines;
}

}  // namespace echelon
