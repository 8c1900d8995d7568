#include "optim/parameter_groups.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "optim/muon/matrices.h"

namespace echelon {
namespace {

/// Number of existing names that an error about a pattern lists.
constexpr std::size_t kNamesShown = 4;

}  // namespace

std::vector<std::string> parameter_names(const Model& model, bool trained) {
  std::vector<std::string> names;
  for (const Parameter::Part* part : parts_of(model.parameters())) {
    if (!trained || !part->frozen) names.push_back(part->name);
  }
  return names;
}

void require_match(const std::string& key, const std::string& pattern,
                   const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches(pattern, name); }))
    return;
  // Evenly spread over the model, to show its different kinds of names.
  std::vector<std::string> shown;
  const std::size_t count = std::min(kNamesShown, names.size());
  for (std::size_t i = 0; i < count; ++i)
    shown.push_back("'" + names[i * (names.size() - 1) / std::max<std::size_t>(count - 1, 1)] + "'");
  const char* tied = matches(pattern, "lm_head.weight") || matches(pattern, "embed_out.weight")
                         ? "; a head that is tied (model.tie_embeddings) has no weight of its own: name the "
                           "embedding's"
                         : "";
  throw Error(Code::kUsage, key, ": pattern '", pattern, "' matches no parameter; names look like ",
              join(shown, ", "), " ('*' stands for any characters)", tied);
}

ParameterGroup group_of(const OptimOptions& options, const std::string& name) {
  ParameterGroup group{.decays = !matches_any(options.no_decay, name)};
  if (const double* factor = last_match(options.lr_factors, name)) group.lr_factor = *factor;
  return group;
}

std::unique_ptr<Model> with_frozen(std::unique_ptr<Model> model, const OptimOptions& options) {
  require_trained(options, parameter_names(*model, true));
  for (Parameter* parameter : model->parameters())
    parameter->freeze([&](const std::string& name) { return options.freezes(name); });
  return model;
}

void require_trained(const OptimOptions& options, const std::vector<std::string>& names) {
  if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return !options.freezes(name); }))
    return;
  throw Error(Code::kUsage,
              "optim.lr_factors: the factor of every parameter is 0, so nothing would be trained; leave the "
              "parameters to be trained out of its patterns, or give them a factor above 0 in a later one");
}

std::vector<ParameterGroup> parameter_groups(const OptimOptions& options, const ShardedModel& model) {
  const std::vector<std::string> names = parameter_names(model.model());
  for (const std::string& pattern : options.no_decay) require_match("optim.no_decay", pattern, names);
  for (const std::string& pattern : options.muon.adamw) require_match("optim.muon.adamw", pattern, names);
  for (const auto& [pattern, factor] : options.lr_factors) require_match("optim.lr_factors", pattern, names);
  std::vector<ParameterGroup> groups;
  for (std::size_t u = 0; u < model.units().size(); ++u) {
    std::int64_t trained_at = 0;
    for (const SlicePiece& piece : model.units()[u]->pieces()) {
      if (piece.part->frozen || is_of_muon(options, *piece.part)) continue;
      const ParameterGroup wanted = group_of(options, piece.part->name);
      auto group = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& g) {
        return g.decays == wanted.decays && g.lr_factor == wanted.lr_factor;
      });
      if (group == groups.end()) group = groups.insert(groups.end(), wanted);
      const std::int64_t end = piece.at + piece.numel();
      if (!group->ranges.empty() && group->ranges.back().unit == u && group->ranges.back().end == piece.at) {
        group->ranges.back().end = end;
      } else {
        group->ranges.push_back({u, piece.at, end, trained_at});
      }
      trained_at += piece.numel();
    }
  }
  return groups;
}

}  // namespace echelon
