#include "families/model_config.h"

#include "base/error.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::families {
namespace {

/// Members of any model's config.json that do not affect the computation: origin, generation settings,
/// special ids, settings of heads other than the language model's.
constexpr std::string_view kNeutral =
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path _num_labels "
    "architectures attn_implementation bad_words_ids begin_suppress_tokens bos_token_id "
    "cache_implementation chunk_size_feed_forward classifier_dropout cls_token_id diversity_penalty "
    "do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id "
    "gradient_checkpointing id2label initializer_factor initializer_range is_llama_config label2id "
    "length_penalty max_length max_new_tokens min_length model_type name_or_path no_repeat_ngram_size "
    "num_beam_groups num_beams num_labels num_return_sequences output_attentions output_hidden_states "
    "output_past output_scores pad_token_id prefix pretraining_tp problem_type remove_invalid_values "
    "repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens "
    "task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype torchscript "
    "transformers.js_config transformers_version typical_p unk_token_id unsloth_fixed unsloth_version "
    "use_bfloat16 use_cache";

/// Values without meaning: null, false, an empty list or object.
bool is_nothing(const checkpoint::Json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

}  // namespace

checkpoint::Json stated(std::span<const StatedSize> sizes, const ModelOptions& model) {
  checkpoint::Json members;
  for (const StatedSize& one : sizes) members[one.key] = model.*one.size;
  return members;
}

std::int64_t ModelConfig::size(const char* key, const IntegerRange& range) const {
  known_.insert(key);
  // On export too: tensors are listed for as many layers as a foreign checkpoint states.
  const std::uint64_t value = checkpoint::number(json_, key, static_cast<std::uint64_t>(range.high), what_);
  if (value == 0) fail(str("'", key, "' is 0"));
  const auto size = static_cast<std::int64_t>(value);
  if (is_import() && !range.holds(size)) fail(str("'", key, "' is ", size, "; expected ", words(range)));
  return size;
}

std::int64_t ModelConfig::size_or(const char* key, std::int64_t otherwise, const IntegerRange& range) const {
  return has(key) ? size(key, range) : otherwise;
}

std::int64_t ModelConfig::zero_or_size(const char* key, std::int64_t otherwise,
                                       const IntegerRange& range) const {
  if (has(key) && json_[key] == 0) return 0;
  return size_or(key, otherwise, range);
}

void ModelConfig::read(std::span<const StatedSize> sizes, ModelOptions& model) const {
  for (const StatedSize& one : sizes)
    model.*one.size = one.otherwise ? size_or(one.key, *one.otherwise, one.range) : size(one.key, one.range);
}

double ModelConfig::real_or(const char* key, double otherwise, const NumberRange& range) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_number()) fail(str("'", key, "' must be a number"));
  const auto value = json_[key].get<double>();
  if (is_import() && !range.holds(value))
    fail(str("'", key, "' is ", value, "; expected a number ", words(range)));
  return value;
}

bool ModelConfig::flag_or(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_boolean()) fail(str("'", key, "' must be true or false"));
  return json_[key].get<bool>();
}

std::string ModelConfig::text_or(const char* key, const char* otherwise) const {
  return has(key) ? checkpoint::text(json_, key, what_) : otherwise;
}

void ModelConfig::fail(const std::string& problem) const {
  throw Error(Code::kCheckpoint, what_, ": ", problem);
}

void ModelConfig::differs(const std::string& what) const {
  fail(str(what, ", which this model does not support: it cannot be imported"));
}

void ModelConfig::require_text(const char* key, const char* otherwise, const char* computed) const {
  if (const std::string value = text_or(key, otherwise); value != computed)
    differs(str('\'', key, "' is '", printable(value), '\''));
}

void ModelConfig::require_flag(const char* key, bool computed) const {
  if (flag_or(key, computed) != computed) differs(str('\'', key, "' is ", computed ? "false" : "true"));
}

void ModelConfig::require_number(const char* key, double computed) const {
  if (!has(key) || !is_import()) return;
  if (json_[key] != computed) differs(str('\'', key, "' is ", printable(json_[key].dump())));
}

void ModelConfig::take_other_name(const char* key, const char* other) {
  if (has(other)) take_value(key, json_[other], other);
}

void ModelConfig::take_value(const char* key, const checkpoint::Json& value, const char* where) {
  if (!has(key)) {
    checkpoint::Json copy = value;
    json_[key] = std::move(copy);
  } else if (is_import() && json_[key] != value) {
    fail(str("'", key, "' is ", printable(json_[key].dump()), ", but by '", where, "' ",
             printable(value.dump()), "; remove the wrong one"));
  }
}

void ModelConfig::check_all_known(std::string_view neutral) const {
  if (!is_import()) return;
  for (const auto& [key, value] : json_.items()) {
    const bool known =
        known_.contains(key) || is_nothing(value) || has_word(neutral, key) || has_word(kNeutral, key);
    if (known) continue;
    fail(str("'", printable(key), "' is ", printable(value.dump()),
             ". The importer does not know whether it changes what the model computes; if it does not, "
             "remove it from the file"));
  }
}

}  // namespace echelon::families
