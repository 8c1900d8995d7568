#include <algorithm>
#include <map>

#include "base/str.h"
#include "recipe/translate/collected.h"

namespace echelon::recipe {
namespace {

constexpr std::string_view kFields =
    "field_messages=--messages field_tools=--tools field_system=--system message_field_role=--role-key "
    "message_property_mappings.role=--role-key message_field_content=--content-key "
    "message_property_mappings.content=--content-key type.field_instruction=--input "
    "type.field_input=--context type.field_output=--target type.field_system=--system";
constexpr const char* kAlpaca = " --input instruction --context input --target output --system system";
constexpr const char* kRoles = " --role human=user --role gpt=assistant";

std::string options_of(const std::string& key, const Setting& setting, Collected& recipe) {
  if (const auto option = equal_of(kFields, key)) {
    const bool own_roles = *option == "--role-key" && setting.text != "role";
    return str(' ', *option, ' ', printable(setting.text), own_roles ? kRoles : "");
  }
  if (key != "type" || setting.text == "chat_template" || setting.text == "completion") return "";
  if (setting.text == "sharegpt")
    return str(" --messages conversations --role-key from --content-key value", kRoles);
  const bool alpaca = setting.text == "alpaca";
  recipe.remark(setting, alpaca ? "prompts are written by the model's chat template, not by Alpaca's words"
                                : "name the fields of its lines with options of `echelon prepare`");
  return alpaca ? kAlpaca : "";
}

}  // namespace

std::string line_form(Trainer trainer, Collected& recipe) {
  if (trainer == Trainer::kLlamaFactory) {
    if (const Setting* names = recipe.input("data.path"))
      recipe.remark(*names,
                    str("dataset_info.json has their files and fields; name these with options of `echelon "
                        "prepare`, such as",
                        kAlpaca, " where it says no formatting"));
    return "";
  }
  constexpr std::string_view kList = "datasets.";
  std::map<std::string, std::string> forms;  // by data set
  for (const Setting& setting : recipe.inputs["data.path"]) {
    const std::size_t end = setting.path.find('.', kList.size());
    if (!setting.path.starts_with(kList) || end == setting.path.npos) continue;
    forms[setting.path.substr(0, end)] += options_of(setting.path.substr(end + 1), setting, recipe);
  }
  if (forms.empty()) return "";
  const std::string& first = forms.begin()->second;
  if (std::ranges::all_of(forms, [&](const auto& form) { return form.second == first; })) return first;
  std::vector<std::string> all;
  for (const auto& [name, form] : forms) all.push_back(name + (form.empty() ? " none" : form));
  recipe.remarks.push_back(
      str("the data sets have lines of different forms: prepare each by a command with its options: ",
          join(all, "; ")));
  return "";
}

}  // namespace echelon::recipe
