#include "hugging_face_files.h"

#include "base/error.h"
#include "checkpoint/json.h"

namespace echelon::tool {
namespace {

checkpoint::Json parse_config(const std::string& text) {
  checkpoint::Json config = checkpoint::parse_json(text, "config.json");
  if (!config.is_object()) throw Error(Code::kCheckpoint, "config.json: expected a JSON object");
  return config;
}

}  // namespace

std::string config_with_dtype(const std::string& text, const std::string& dtype) {
  checkpoint::Json config = parse_config(text);
  if (dtype == "same") return text;
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = dtype == "bf16" ? "bfloat16" : "float32";
  }
  return config.dump(2) + "\n";
}

std::string config_with_flags(const std::string& text, const std::map<std::string, bool>& flags) {
  checkpoint::Json config = parse_config(text);
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
