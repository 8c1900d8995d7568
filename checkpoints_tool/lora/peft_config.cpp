#include "checkpoints_tool/lora/peft_config.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::tool {
namespace {

constexpr std::int64_t kMostRank = 1 << 16;
constexpr double kMostAlpha = 1e6;

/// Keys that are read, or that change nothing of what a trained adapter computes.
constexpr std::string_view kAnyValue =
    "r lora_alpha use_rslora lora_dropout target_modules modules_to_save peft_type auto_mapping "
    "base_model_name_or_path inference_mode megatron_core peft_version qalora_group_size revision "
    "runtime_config task_type init_lora_weights";

/// A value that asks for nothing: null, false, "none", an empty text or list.
bool asks_for_nothing(const nlohmann::json& value) {
  if (value.is_string()) return value == "none" || value.get_ref<const std::string&>().empty();
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

class Config {
 public:
  Config(const std::string& text, std::string what)
      : what_(std::move(what)), root_(parse_foreign_json(text, what_, Code::kCheckpoint)) {
    if (!root_.is_object() || !number("r") || !number("lora_alpha"))
      refuse("is not of LoRA: expected the numbers r and lora_alpha");
    if (has("peft_type") && root_["peft_type"] != "LORA")
      refuse(str("has peft_type ", shown("peft_type"), "; expected \"LORA\""));
    for (const auto& [key, value] : root_.items()) {
      if (has_word(kAnyValue, key) || asks_for_nothing(value)) continue;
      refuse(str("sets ", printable(key), " to ", shown(key),
                 ", which Echelon does not compute; only adapters without it can be imported"));
    }
    // Others, such as pissa, change the base itself.
    if (!has("init_lora_weights")) return;
    const nlohmann::json& init = root_["init_lora_weights"];
    if (init.is_boolean() || init == "gaussian" || init == "orthogonal") return;
    refuse(str("sets init_lora_weights to ", shown("init_lora_weights"),
               ", whose adapters are of a base that it changes; expected true, false, \"gaussian\" or "
               "\"orthogonal\""));
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(Code::kCheckpoint, what_, " ", problem);
  }
  [[nodiscard]] bool has(const char* key) const { return root_.contains(key) && !root_[key].is_null(); }
  [[nodiscard]] bool number(const char* key) const { return has(key) && root_[key].is_number(); }
  [[nodiscard]] const nlohmann::json& value(const char* key) const { return root_[key]; }
  [[nodiscard]] std::string shown(const std::string& key) const {
    constexpr std::size_t kShown = 60;
    return printable(root_[key].dump(), kShown);
  }
  [[nodiscard]] std::vector<std::string> names(const char* key) const {
    std::vector<std::string> names;
    if (!has(key)) return names;
    const nlohmann::json& list = root_[key];
    if (!list.is_array()) refuse(str("has a ", key, " that is no list of names"));
    for (const nlohmann::json& name : list) {
      if (!name.is_string() || name.get<std::string>().empty())
        refuse(str("has a ", key, " that is no list of names"));
      names.push_back(name.get<std::string>());
    }
    return names;
  }

 private:
  std::string what_;
  nlohmann::json root_;
};

}  // namespace

PeftConfig lora_of_peft(const std::string& text, const std::string& what) {
  const Config config(text, what);
  const auto rank = config.value("r").get<double>();
  const auto alpha = config.value("lora_alpha").get<double>();
  if (!(rank >= 1 && rank <= kMostRank && rank == std::floor(rank)) || !(alpha > 0 && alpha <= kMostAlpha))
    config.refuse(str("has r ", rank, " and lora_alpha ", alpha, "; expected a rank of 1 to ", kMostRank,
                      " and an alpha above 0, at most ", kMostAlpha));
  PeftConfig read;
  read.lora.rank = static_cast<std::int64_t>(rank);
  read.lora.alpha = alpha;
  read.lora.use_rslora = config.has("use_rslora") && config.value("use_rslora") == true;
  if (config.number("lora_dropout")) read.lora.dropout = config.value("lora_dropout").get<double>();
  if (!(read.lora.dropout >= 0 && read.lora.dropout < 1))
    config.refuse(str("has lora_dropout ", read.lora.dropout, "; expected at least 0 and below 1"));
  read.lora.also_train = config.names("modules_to_save");
  for (std::string& end : read.lora.also_train) end.insert(0, 1, '*');  // peft asks endswith() only
  const bool text_of_modules = config.has("target_modules") && config.value("target_modules").is_string();
  if (text_of_modules) {
    read.lists_modules = config.value("target_modules") == "all-linear";
  } else {
    read.lora.modules = config.names("target_modules");
    read.lists_modules = !read.lora.modules.empty();
  }
  return read;
}

}  // namespace echelon::tool
