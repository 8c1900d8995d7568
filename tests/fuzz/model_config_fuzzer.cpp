// Any bytes as the config.json of weights to import: it is described or refused in one line, and what is
// described has sound shapes, names a checkpoint can hold, and no name twice.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/format/names.h"
#include "families/model_family.h"
#include "fuzz/refused.h"

namespace {

using echelon::families::ModelDescription;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const ModelDescription& model) {
  std::set<std::string> names;
  for (const auto& tensor : model.tensors) {
    require(names.insert(tensor.name).second &&
            echelon::checkpoint::tensor_name_problem(tensor.name).empty());
    require(tensor.shape.size() == 1 || tensor.shape.size() == 2);
    for (const std::int64_t size : tensor.shape) require(size > 0);
    require(tensor.shape.size() == 2 || !echelon::families::has_ending(tensor.name, model.transposed));
  }
  for (const auto& tied : model.tied) require(names.contains(tied.same_as) && !names.contains(tied.name));
  const std::string recipe = model.whole_recipe();
  require(recipe.find("\nmodel:\n  kind: " + std::string(echelon::word_of(model.kind)) + "\n") !=
          std::string::npos);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"model_type":"llama","vocab_size":64,"hidden_size":32,"intermediate_size":48,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"tie_word_embeddings":true,"rope_theta":1e4,)"
      R"("rope_parameters":{"rope_type":"default","rope_theta":1e4},"rms_norm_eps":1e-6})",
      R"({"model_type":"gpt2","vocab_size":64,"n_positions":32,"n_embd":24,"n_layer":2,"n_head":4,"n_inner":null,)"
      R"("activation_function":"gelu_new","resid_pdrop":0.1,"layer_norm_epsilon":1e-05,"tie_word_embeddings":false})",
      R"({"model_type":"gpt_neox","vocab_size":64,"hidden_size":32,"intermediate_size":48,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,"rotary_pct":0.25,"rotary_emb_base":10000,"hidden_dropout":0.1,)"
      R"("rope_parameters":{"rope_type":"default","rope_theta":1e4,"partial_rotary_factor":0.25}})",
      R"({"model_type":"t5","vocab_size":64,"d_model":24,"d_kv":5,"d_ff":36,"num_layers":2,"num_decoder_layers":3,)"
      R"("num_heads":4,"feed_forward_proj":"gated-gelu","is_gated_act":true,"dense_act_fn":"gelu_new",)"
      R"("tie_word_embeddings":true,"scale_decoder_outputs":false,"relative_attention_num_buckets":8})"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return text_used_or_refused(echelon::Code::kCheckpoint, data, size, [](const std::string& text) {
    (void)echelon::families::transposed_endings(text);
    for (const auto purpose : {echelon::families::Purpose::kImport, echelon::families::Purpose::kExport}) {
      for (const bool head : {false, true})
        check(echelon::families::describe_model(text, "config.json", purpose,
                                                [&](const std::string&) { return head; }));
    }
  });
}
