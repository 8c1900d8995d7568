#pragma once
#include <string>

#include "shapes/options.h"

namespace echelon {

/// The adapter_config.json with which peft opens exported adapters. Requires lora.rank above 0. The name of
/// the base is null.
[[nodiscard]] std::string adapter_config(const ModelOptions& model, const LoraOptions& lora);

}  // namespace echelon
