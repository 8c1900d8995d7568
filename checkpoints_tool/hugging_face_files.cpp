#include "hugging_face_files.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace echelon::tool {

std::string config_with_dtype(const std::string& text, const std::string& dtype) {
  auto config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw Error(Code::kCheckpoint, "config.json is not a JSON object");
  if (dtype == "same") return text;
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = dtype == "bf16" ? "bfloat16" : "float32";
  }
  return config.dump(2) + "\n";
}

std::string config_with_flags(const std::string& text, const std::map<std::string, bool>& flags) {
  auto config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  bool changed = false;
  for (const auto& [name, value] : flags) {
    const bool stated = config.contains(name) && config[name].is_boolean();
    if (stated ? config[name] == value : value) continue;
    config[name] = value;
    changed = true;
  }
  return changed ? config.dump(2) + "\n" : text;
}

}  // namespace echelon::tool
