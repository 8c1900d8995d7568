#include "families/rope_config.h"

#include <cmath>

#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"

namespace echelon::families {
namespace {

using checkpoint::Json;

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

constexpr const char* kLocal = "rope_local_base_freq";
constexpr const char* kPartial = "partial_rotary_factor";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr std::int64_t kPhi3Original = 4096;

/// The part of `rope` about layers without a window. Refuses what layers with one cannot have, and takes
/// their theta where it is one of their own.
Json of_full_layers(ModelConfig& config, const char* key, const Json& rope, const RopeSpelling& spelling) {
  const Json full = rope.value(kFull, Json());
  Json sliding = rope.value(kSliding, Json());
  if (!full.is_object() || !sliding.is_object())
    config.fail(str("'", key, "' must have the objects '", kFull, "' and '", kSliding, '\''));
  const Json theta = sliding.value("rope_theta", Json());
  if (spelling.window_theta && !theta.is_null()) config.take_value(kLocal, theta, key);
  const bool same_theta = spelling.window_theta || theta == full.value("rope_theta", Json());
  sliding.erase("rope_theta");
  if (!same_theta || sliding != Json{{"rope_type", "default"}})
    config.differs(str("'", key, "' is for '", kSliding,
                       "' other than the type default with the rope_theta of '", kFull, '\''));
  return full;
}

/// Makes a member of `rope` one of the file.
void move_out(ModelConfig& config, const char* key, Json& rope, const char* member) {
  if (rope.contains(member)) config.take_value(member, Json(rope[member]), key);
  rope.erase(member);
}

/// rope_scaling or rope_parameters as one spells it now: rope_type in place of type.
Json spelled(ModelConfig& config, const char* key, const RopeSpelling& spelling) {
  Json rope = config[key];
  if (!rope.is_object()) config.fail(str("'", key, "' must be an object"));
  if (rope.contains(kFull) || rope.contains(kSliding)) {
    if (!spelling.by_layer_type)
      config.differs(str("'", key, "' gives each kind of layer rotary positions of its own"));
    rope = of_full_layers(config, key, rope, spelling);
  }
  if (rope.contains("type")) {
    if (rope.contains("rope_type") && rope["rope_type"] != rope["type"])
      config.fail(str("'", key, "' has two types, ", printable(rope["type"].dump()), " and ",
                      printable(rope["rope_type"].dump()), "; remove the wrong one"));
    rope["rope_type"] = rope["type"];
    rope.erase("type");
  }
  if (!rope.contains("rope_type")) rope["rope_type"] = "default";
  if (spelling.partial) move_out(config, key, rope, kPartial);
  if (!spelling.as_phi3) return rope;
  move_out(config, key, rope, kOriginal);
  if (rope["rope_type"] == "su" || rope["rope_type"] == "yarn") rope["rope_type"] = "longrope";  // old names
  return rope;
}

/// transformers 5 follows rope_scaling, with a default for a theta that it does not state, and versions
/// before do not know rope_parameters.
void check_one_meaning(const ModelConfig& config, const Json& scaling, const Json& parameters,
                       const RopeSpelling& spelling) {
  if (!config.is_import()) return;
  if (spelling.theta && !config.has("rope_theta")) {
    const Json theta = parameters.value("rope_theta", Json(*spelling.theta));
    if (scaling.value("rope_theta", Json(*spelling.theta)) != theta)
      config.fail(str("'rope_theta' is ", printable(theta.dump()),
                      " in 'rope_parameters', but by 'rope_scaling' ", number_text(*spelling.theta),
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

/// One number for each frequency.
std::vector<double> factors(const ModelConfig& rope, const char* key) {
  if (!rope.has(key) || !rope[key].is_array()) rope.fail(str("'", key, "' must be a list of numbers"));
  std::vector<double> all;
  for (const Json& factor : rope[key]) {
    if (!factor.is_number() || !model_ranges::kRopeFactors.holds(factor.get<double>()))
      rope.fail(str("'", key, "' has ", printable(factor.dump()), "; expected numbers ",
                    words(model_ranges::kRopeFactors)));
    all.push_back(factor.get<double>());
  }
  return all;
}

RopeScalingOptions read_scaling(ModelConfig& config, const Json& json, const std::string& what,
                                std::int64_t max_positions, const RopeSpelling& spelling) {
  const ModelConfig rope(json, what, config.is_import() ? Purpose::kImport : Purpose::kExport);
  const std::string word = rope.text_or("rope_type", "default");
  const auto kind = choice_of<RopeKind>(word);
  const bool is_long = kind == RopeKind::kLongRope;
  if (!kind || (kind != RopeKind::kDefault && is_long != spelling.as_phi3))
    config.differs(str("rotary positions of type '", printable(word), '\''));
  (void)rope.has("rope_theta");
  rope.require_number(kPartial, 1);
  RopeScalingOptions scaling{.kind = *kind};
  if (spelling.as_phi3) {
    const std::int64_t original = config.size_or(kOriginal, kPhi3Original, model_ranges::kMaxPositions);
    if (is_long) scaling.original_positions = original;
  }
  if (is_long) {
    scaling.short_factor = factors(rope, "short_factor");
    scaling.long_factor = factors(rope, "long_factor");
  } else if (*kind != RopeKind::kDefault) {
    scaling.factor = required(rope, "factor", model_ranges::kRopeFactor);
    if (*kind != RopeKind::kLinear)
      scaling.original_positions = rope.size_or(kOriginal, max_positions, model_ranges::kMaxPositions);
  }
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
  rope.check_all_known("");
  return scaling;
}

ConfigMembers members_of(const ModelOptions& model, Json json, const RopeSpelling& spelling) {
  const RopeScalingOptions& scaling = model.rope_scaling;
  ConfigMembers members{{"rope_theta", model.rope_theta}};
  json.erase("rope_theta");
  if (scaling.kind == RopeKind::kLongRope) {
    // transformers 4 takes these three members only.
    members["rope_scaling"] = {
        {"type", "longrope"}, {"short_factor", json["short_factor"]}, {"long_factor", json["long_factor"]}};
    members[kOriginal] = original_positions(model);
  }
  if (scaling.kind != RopeKind::kDefault && scaling.kind != RopeKind::kLinear)
    json[kOriginal] = original_positions(model);
  if (scaling.kind != RopeKind::kDefault && !spelling.as_phi3) members["rope_scaling"] = json;
  json["rope_theta"] = model.rope_theta;
  if (spelling.partial) json[kPartial] = members[kPartial] = model.partial_rotary_factor;
  const double theta = model.window_rope_theta > 0 ? model.window_rope_theta : model.rope_theta;
  if (spelling.window_theta) members[kLocal] = theta;
  if (spelling.by_layer_type) {
    json = {{kFull, json}, {kSliding, {{"rope_type", "default"}, {"rope_theta", theta}}}};
  }
  members["rope_parameters"] = std::move(json);
  return members;
}

}  // namespace

ConfigMembers read_rope(ModelConfig& config, ModelOptions& model, const RopeSpelling& spelling) {
  std::vector<std::pair<const char*, Json>> stated;
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    if (config.has(place)) stated.emplace_back(place, spelled(config, place, spelling));
  }
  if (stated.size() == 2) check_one_meaning(config, stated[0].second, stated[1].second, spelling);
  for (const auto& [place, rope] : stated) {
    if (rope.contains("rope_theta")) config.take_value("rope_theta", rope["rope_theta"], place);
  }
  if (stated.empty()) stated.emplace_back("rope_parameters", Json{{"rope_type", "default"}});
  Json& json = stated.front().second;
  if (!spelling.theta && !config.has("rope_theta"))
    config.fail("'rope_theta' is missing, for which versions of transformers have different defaults");
  model.rope_theta = config.real_or("rope_theta", spelling.theta.value_or(0), model_ranges::kRopeTheta);
  if (spelling.partial)
    model.partial_rotary_factor = config.real_or(kPartial, *spelling.partial, model_ranges::kPartialRotary);
  else
    config.require_number(kPartial, 1);
  model.rope_scaling =
      read_scaling(config, json, config.inside(stated.front().first), model.max_positions, spelling);
  if (spelling.window_theta) {
    const double theta = config.real_or(kLocal, *spelling.window_theta, model_ranges::kRopeTheta);
    if (model.window > 0) model.window_rope_theta = theta;  // else no layer has it
  }
  return members_of(model, std::move(json), spelling);
}

ConfigMembers rope_members(const ModelOptions& model, const RopeSpelling& spelling) {
  const RopeScalingOptions& rope = model.rope_scaling;
  Json json{{"rope_type", word_of(rope.kind)}};
  if (rope.kind == RopeKind::kLongRope) {
    json["short_factor"] = rope.short_factor;
    json["long_factor"] = rope.long_factor;
  } else if (rope.kind != RopeKind::kDefault) {
    json["factor"] = rope.factor;
  }
  if (rope.kind == RopeKind::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.kind == RopeKind::kYarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  }
  return members_of(model, std::move(json), spelling);
}

}  // namespace echelon::families
