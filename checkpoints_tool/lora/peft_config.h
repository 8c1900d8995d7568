#pragma once
#include <string>

#include "shapes/options.h"

namespace echelon::tool {

/// The content of an adapter_config.json.
struct PeftConfig {
  LoraOptions lora;  ///< modules: target_modules; also_train: patterns of modules_to_save
  /// Names are listed, or all matrices meant; else target_modules is a regular expression, and lora.modules
  /// is empty.
  bool lists_modules = true;
};

/// Throws Error(kCheckpoint), naming `what`, for anything but plain LoRA: a key that makes peft compute
/// something else is refused by name.
[[nodiscard]] PeftConfig lora_of_peft(const std::string& text, const std::string& what);

}  // namespace echelon::tool
