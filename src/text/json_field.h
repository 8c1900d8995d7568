#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/str.h"

namespace echelon::data {

/// A value inside a JSON document together with the path to it, so that every fault names its field. For
/// source files of this module only.
class JsonField {
 public:
  /// `json` must outlive the field and all made from it.
  JsonField(const nlohmann::json& json, std::string path) : json_(json), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& json() const { return json_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// "<path> is <value>, expected <expected>".
  [[noreturn]] void refuse(std::string_view expected) const {
    const std::string value = json_.is_object() || json_.is_array()
                                  ? json_.type_name()
                                  : json_.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    throw Error(Code::kData, path_, " is ", printable(value), ", expected ", expected);
  }

  /// Member `name`; nothing when there is none or it is null. Throws Error(kData) for what is no object.
  [[nodiscard]] std::optional<JsonField> find(const char* name) const {
    if (!json_.is_object()) refuse("an object");
    const auto member = json_.find(name);
    if (member == json_.end() || member->is_null()) return std::nullopt;
    return JsonField(*member, str(path_, ".", name));
  }

  [[nodiscard]] JsonField at(const char* name) const {
    auto member = find(name);
    if (!member) throw Error(Code::kData, path_, " has no field '", name, "'");
    return *member;
  }

  [[nodiscard]] const std::string& text() const {
    if (!json_.is_string()) refuse("a string");
    return json_.get_ref<const std::string&>();
  }

  [[nodiscard]] std::string text_or_empty(const char* name) const {
    const auto member = find(name);
    return member ? member->text() : std::string();
  }

  [[nodiscard]] bool boolean(const char* name, std::optional<bool> otherwise = {}) const {
    const auto member = otherwise ? find(name) : std::optional(at(name));
    if (!member) return *otherwise;
    if (!member->json_.is_boolean()) member->refuse("true or false");
    return member->json_.get<bool>();
  }

  [[nodiscard]] std::int32_t integer(std::int32_t most) const {
    const bool good =
        json_.is_number_unsigned() && json_.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    if (!good) refuse(str("a number from 0 to ", most));
    return json_.get<std::int32_t>();
  }

  /// Items of an array of at most `most`.
  [[nodiscard]] std::vector<JsonField> items(std::size_t most) const {
    if (!json_.is_array()) refuse("an array");
    if (json_.size() > most) {
      throw Error(Code::kData, path_, " has ", json_.size(), " entries, expected at most ", most);
    }
    std::vector<JsonField> fields;
    fields.reserve(json_.size());
    for (std::size_t i = 0; i < json_.size(); ++i) fields.emplace_back(json_[i], str(path_, "[", i, "]"));
    return fields;
  }

 private:
  const nlohmann::json& json_;
  std::string path_;
};

}  // namespace echelon::data
