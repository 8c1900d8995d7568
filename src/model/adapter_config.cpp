#include "model/adapter_config.h"

#include <nlohmann/json.hpp>

#include "shapes/lora.h"

namespace echelon {

std::string adapter_config(const ModelOptions& model, const LoraOptions& lora) {
  const std::vector<std::string> whole = modules_trained_whole(model, lora);
  nlohmann::ordered_json config{{"peft_type", "LORA"},
                                {"task_type", "CAUSAL_LM"},
                                {"base_model_name_or_path", nullptr},
                                {"r", lora.rank},
                                {"lora_alpha", lora.alpha},
                                {"use_rslora", lora.use_rslora},
                                {"lora_dropout", lora.dropout},
                                {"target_modules", target_modules(model, lora)},
                                {"modules_to_save", nullptr},
                                {"bias", "none"},
                                {"fan_in_fan_out", false},
                                {"init_lora_weights", true},
                                {"inference_mode", true}};
  if (!whole.empty()) config["modules_to_save"] = whole;
  return config.dump(2) + "\n";
}

}  // namespace echelon
