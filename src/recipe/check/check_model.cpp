#include "base/str.h"
#include "recipe/check/contradictions.h"
#include "shapes/llama_family.h"
#include "shapes/shapes.h"

namespace echelon::recipe {
namespace {

constexpr std::int64_t kMaxParameters = 10'000'000'000'000;

/// Reports heads that do not divide the width.
bool check_heads(const ModelOptions& model, Conflicts& found) {
  if (model.hidden_size % model.heads == 0) return true;
  found.add({"model.hidden_size", "model.heads"}, "model.hidden_size is ", model.hidden_size,
            "; expected a multiple of model.heads (", model.heads, "), such as ",
            nearest_multiples(model.hidden_size, model.heads));
  return false;
}

void check_rotary(const ModelOptions& model, Conflicts& found) {
  if (model.head_size == 0 && !check_heads(model, found)) return;
  if (const std::int64_t turned = rotary_size(model); model.partial_rotary_factor != 1) {
    if (turned > 0 && turned % 2 == 0 && head_size(model) % 2 == 0) return;
    found.add({"model.partial_rotary_factor"}, "model.partial_rotary_factor is ", model.partial_rotary_factor,
              ": rotary positions turn ", turned, " of ", head_size(model),
              " elements of a head; expected two even numbers, because they rotate pairs of values");
    return;
  }
  if (head_size(model) % 2 == 0) return;
  if (model.head_size != 0) {
    found.add({"model.head_size"}, "model.head_size is ", model.head_size,
              "; expected an even number, because rotary positions rotate pairs of values");
    return;
  }
  found.add({"model.hidden_size", "model.heads"}, "model.hidden_size / model.heads is ", model.hidden_size,
            " / ", model.heads, " = ", model.hidden_size / model.heads,
            "; expected an even head size, because rotary positions rotate pairs of values; set "
            "model.hidden_size to ",
            nearest_multiples(model.hidden_size, 2 * model.heads));
}

/// Phi-3 has no other kind of stretching in transformers, and no other family has this one here.
void check_longrope(const ModelOptions& model, Conflicts& found) {
  const RopeScalingOptions& rope = model.rope_scaling;
  const bool is_phi3 = model.kind == ModelKind::kPhi3;
  const bool is_long = rope.kind == RopeKind::kLongRope;
  if (rope.kind != RopeKind::kDefault && is_phi3 != is_long) {
    found.add({"model.rope_scaling.kind", "model.kind"}, "model.rope_scaling.kind is ", word_of(rope.kind),
              ", but model.kind ", word_of(model.kind), "; expected ",
              is_phi3 ? "default or longrope" : "another kind: only phi3 has longrope");
  }
  const auto count = [&](const std::vector<double>& factors, const char* key) {
    const auto size = static_cast<std::int64_t>(factors.size());
    if (!is_long || size == rotary_size(model) / 2) return;
    found.add({key, "model.rope_scaling.kind"}, key, " has ", size, " numbers; expected ",
              rotary_size(model) / 2, ", one for each frequency (half of the elements of a head that turn)");
  };
  count(rope.short_factor, "model.rope_scaling.short_factor");
  count(rope.long_factor, "model.rope_scaling.long_factor");
}

void check_rope_scaling(const RopeScalingOptions& rope, Conflicts& found) {
  if (rope.kind == RopeKind::kLlama3 && rope.low_freq_factor >= rope.high_freq_factor) {
    found.add({"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"},
              "model.rope_scaling.low_freq_factor is ", rope.low_freq_factor,
              "; expected less than high_freq_factor (", rope.high_freq_factor, ')');
  }
  if (rope.kind == RopeKind::kYarn && rope.beta_slow >= rope.beta_fast) {
    found.add({"model.rope_scaling.beta_slow", "model.rope_scaling.beta_fast"},
              "model.rope_scaling.beta_slow is ", rope.beta_slow, "; expected less than beta_fast (",
              rope.beta_fast, ')');
  }
}

/// Reports blocks that are all of the kind that few should be.
void check_every(std::int64_t every, const char* key, const char* what, Conflicts& found) {
  if (every != 1) return;
  found.add({key}, key, " is 1: every block is ", what, "; expected 0 or at least 2");
}

void check_window(const ModelOptions& model, Conflicts& found) {
  check_every(model.full_attention_every, "model.full_attention_every", "without the window", found);
  check_every(model.no_rope_every, "model.no_rope_every", "without rotary positions", found);
  const auto of_windows = [&](bool given, const char* key) {
    if (!given || model.window > 0) return;
    found.add({key, "model.window"}, key,
              " is given, but model.window is 0: no block has a window; set model.window or remove ", key);
  };
  of_windows(model.full_attention_every > 0, "model.full_attention_every");
  of_windows(model.window_rope_theta > 0, "model.window_rope_theta");
  of_windows(model.window_from_layer > 0, "model.window_from_layer");
  if (model.window == 0 || model.window_from_layer < model.layers) return;
  found.add({"model.window_from_layer", "model.layers"}, "model.window_from_layer is ",
            model.window_from_layer, "; expected less than model.layers (", model.layers,
            "): else no block has the window; remove model.window");
}

void check_llama(const ModelOptions& model, Conflicts& found) {
  check_rotary(model, found);
  check_rope_scaling(model.rope_scaling, found);
  check_longrope(model, found);
  check_window(model, found);
  if (model.heads % model.kv_heads != 0) {
    found.add({"model.kv_heads", "model.heads"}, "model.kv_heads is ", model.kv_heads,
              "; expected a divisor of model.heads (", model.heads, "): ", divisors_of(model.heads));
  }
}

void check_t5(const ModelOptions& model, Conflicts& found) {
  if (model.head_size == 0) (void)check_heads(model, found);
  // The encoder's distances are signed: half of its buckets serve each sign. Half of those hold a single
  // distance each.
  if (model.relative_buckets < 4 || model.relative_buckets % 2 != 0) {
    found.add({"model.relative_buckets"}, "model.relative_buckets is ", model.relative_buckets,
              "; expected an even number of at least 4, because each direction has half of them");
  }
  if (model.relative_max_distance <= model.relative_buckets / 2) {
    found.add({"model.relative_max_distance", "model.relative_buckets"}, "model.relative_max_distance is ",
              model.relative_max_distance, "; expected more than half of model.relative_buckets (",
              model.relative_buckets, "): the first half of the buckets is for one distance each");
  }
}

void check_vit(const ModelOptions& model, Conflicts& found) {
  (void)check_heads(model, found);
  if (model.image_size % model.patch_size == 0) return;
  found.add({"model.patch_size", "model.image_size"}, "model.patch_size is ", model.patch_size,
            "; expected a divisor of model.image_size (", model.image_size,
            "): ", divisors_of(model.image_size));
}

void check_cnn(const ModelOptions& model, Conflicts& found) {
  if (model.image_size >= 6) return;
  found.add({"model.image_size"}, "model.image_size is ", model.image_size,
            "; expected at least 6: two convolutions of 3 x 3 and a pool of 2 x 2 leave nothing");
}

void check_parameters(const ModelOptions& model, Conflicts& found) {
  const std::vector<std::string> sizes{"model.layers",     "model.hidden_size",    "model.intermediate_size",
                                       "model.vocab_size", "model.heads",          "model.kv_heads",
                                       "model.head_size",  "model.decoder_layers", "model.image_size",
                                       "model.classes",    "model.max_positions"};
  const auto parameters = parameter_count(model);
  if (parameters && *parameters <= kMaxParameters) return;
  found.add(sizes, "the model has ",
            parameters ? human_count(static_cast<std::uint64_t>(*parameters)) : "more than 2^63",
            " parameters; at most ", human_count(kMaxParameters), " are accepted; check model.layers (",
            model.layers, "), hidden_size (", model.hidden_size, "), intermediate_size (",
            model.intermediate_size, ") and vocab_size (", model.vocab_size, ")");
}

}  // namespace

void find_model_conflicts(const ModelOptions& model, Conflicts& found) {
  switch (class_of(model.kind)) {
    case ModelClass::kLlama: check_llama(model, found); break;
    case ModelClass::kGpt2: (void)check_heads(model, found); break;
    case ModelClass::kGptNeoX: check_rotary(model, found); break;
    case ModelClass::kT5: check_t5(model, found); break;
    case ModelClass::kVit:
    case ModelClass::kDeepVit: check_vit(model, found); break;
    case ModelClass::kCnn: check_cnn(model, found); break;
  }
  check_parameters(model, found);
}

}  // namespace echelon::recipe
