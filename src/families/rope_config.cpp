#include "families/rope_config.h"

#include <cmath>

#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"

namespace echelon::families {
namespace {

using checkpoint::Json;

constexpr double kRopeTheta = 10000.0;  // where nothing is stated

/// rope_scaling or rope_parameters as one spells it now: rope_type in place of type.
Json spelled(const ModelConfig& config, const char* key) {
  Json rope = config[key];
  if (!rope.is_object()) config.fail(str("'", key, "' must be an object"));
  if (rope.contains("full_attention") || rope.contains("sliding_attention"))
    config.differs(str("'", key, "' gives each kind of layer rotary positions of its own"));
  if (rope.contains("type")) {
    if (rope.contains("rope_type") && rope["rope_type"] != rope["type"])
      config.fail(str("'", key, "' has two types, ", printable(rope["type"].dump()), " and ",
                      printable(rope["rope_type"].dump()), "; remove the wrong one"));
    rope["rope_type"] = rope["type"];
    rope.erase("type");
  }
  if (!rope.contains("rope_type")) rope["rope_type"] = "default";
  return rope;
}

/// transformers 5 follows rope_scaling, with a default for a theta that it does not state, and versions
/// before do not know rope_parameters.
void check_one_meaning(const ModelConfig& config, const Json& scaling, const Json& parameters) {
  if (!config.is_import()) return;
  if (!config.has("rope_theta")) {
    const Json theta = parameters.value("rope_theta", Json(kRopeTheta));
    if (scaling.value("rope_theta", Json(kRopeTheta)) != theta)
      config.fail(str("'rope_theta' is ", printable(theta.dump()),
                      " in 'rope_parameters', but by 'rope_scaling' ", number_text(kRopeTheta),
                      "; remove the wrong one of the two"));
  }
  Json one = scaling;
  Json other = parameters;
  one.erase("rope_theta");
  other.erase("rope_theta");
  if (one != other)
    config.fail(str("'rope_scaling' is ", printable(one.dump()), ", but 'rope_parameters' ",
                    printable(other.dump()), "; remove the wrong one of the two"));
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

/// transformers' attention_factor where it is given by two others; 0: by the factor alone.
double attention_factor(const ModelConfig& rope, double factor) {
  const double given = rope.real_or("attention_factor", 0.0, model_ranges::kAttentionFactor);
  const double all = rope.real_or("mscale_all_dim", 0.0, model_ranges::kAttentionFactor);
  const double one = rope.real_or("mscale", 0.0, model_ranges::kAttentionFactor);
  if (given != 0 || all == 0 || one == 0) return given;
  return yarn_scale(factor, one) / yarn_scale(factor, all);
}

double required(const ModelConfig& rope, const char* key, const NumberRange& range) {
  if (!rope.has(key)) rope.fail(str("'", key, "' is missing"));
  return rope.real_or(key, 0.0, range);
}

RopeScalingOptions read_scaling(ModelConfig& config, const Json& json, const std::string& what,
                                std::int64_t max_positions) {
  const ModelConfig rope(json, what, config.is_import() ? Purpose::kImport : Purpose::kExport);
  const std::string word = rope.text_or("rope_type", "default");
  const auto kind = choice_of<RopeKind>(word);
  if (!kind) config.differs(str("rotary positions of type '", printable(word), '\''));
  (void)rope.has("rope_theta");
  rope.require_number("partial_rotary_factor", 1);
  RopeScalingOptions scaling{.kind = *kind};
  if (*kind != RopeKind::kDefault) scaling.factor = required(rope, "factor", model_ranges::kRopeFactor);
  if (*kind != RopeKind::kDefault && *kind != RopeKind::kLinear)
    scaling.original_positions =
        rope.size_or("original_max_position_embeddings", max_positions, model_ranges::kMaxPositions);
  if (*kind == RopeKind::kLlama3) {
    scaling.low_freq_factor = required(rope, "low_freq_factor", model_ranges::kRopeTurns);
    scaling.high_freq_factor = required(rope, "high_freq_factor", model_ranges::kRopeTurns);
    if (scaling.low_freq_factor >= scaling.high_freq_factor)
      rope.fail("'low_freq_factor' is not below 'high_freq_factor'");
  }
  if (*kind == RopeKind::kYarn) {
    scaling.beta_fast = rope.real_or("beta_fast", scaling.beta_fast, model_ranges::kRopeTurns);
    scaling.beta_slow = rope.real_or("beta_slow", scaling.beta_slow, model_ranges::kRopeTurns);
    scaling.attention_factor = attention_factor(rope, scaling.factor);
    scaling.truncate = rope.flag_or("truncate", true);
    if (scaling.beta_slow >= scaling.beta_fast) rope.fail("'beta_slow' is not below 'beta_fast'");
  }
  rope.check_all_known({});
  return scaling;
}

}  // namespace

RopeConfig read_rope(ModelConfig& config, std::int64_t max_positions) {
  const bool has_scaling = config.has("rope_scaling");
  const bool has_parameters = config.has("rope_parameters");
  const char* key = has_scaling ? "rope_scaling" : "rope_parameters";
  Json json{{"rope_type", "default"}};
  if (has_scaling || has_parameters) json = spelled(config, key);
  if (has_scaling && has_parameters) check_one_meaning(config, json, spelled(config, "rope_parameters"));
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    if (config.has(place) && config[place].contains("rope_theta"))
      config.take_value("rope_theta", Json(config[place]["rope_theta"]), place);
  }
  RopeConfig rope{.theta = config.real_or("rope_theta", kRopeTheta, model_ranges::kRopeTheta)};
  rope.scaling = read_scaling(config, json, config.inside(key), max_positions);
  json.erase("rope_theta");
  if (rope.scaling.original_positions > 0)
    json["original_max_position_embeddings"] = rope.scaling.original_positions;
  if (rope.scaling.kind != RopeKind::kDefault) rope.members["rope_scaling"] = json;
  json["rope_theta"] = rope.theta;
  rope.members["rope_theta"] = rope.theta;
  rope.members["rope_parameters"] = std::move(json);
  return rope;
}

std::string recipe_lines(const RopeConfig& rope) {
  const RopeScalingOptions& scaling = rope.scaling;
  std::string lines = str("  rope_theta: ", number_text(rope.theta), '\n');
  if (scaling.kind == RopeKind::kDefault) return lines;
  lines += str("  rope_scaling:\n    kind: ", word_of(scaling.kind),
               "\n    factor: ", number_text(scaling.factor), '\n');
  if (scaling.original_positions > 0)
    lines += str("    original_positions: ", scaling.original_positions, '\n');
  if (scaling.kind == RopeKind::kLlama3)
    lines += str("    low_freq_factor: ", number_text(scaling.low_freq_factor),
                 "\n    high_freq_factor: ", number_text(scaling.high_freq_factor), '\n');
  if (scaling.kind == RopeKind::kYarn)
    lines += str("    beta_fast: ", number_text(scaling.beta_fast),
                 "\n    beta_slow: ", number_text(scaling.beta_slow),
                 "\n    attention_factor: ", number_text(scaling.attention_factor),
                 "\n    truncate: ", scaling.truncate ? "true" : "false", '\n');
  return lines;
}

}  // namespace echelon::families
