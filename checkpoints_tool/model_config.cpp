#include "model_config.h"

#include "base/error.h"
#include "base/str.h"

namespace echelon::tool {

std::int64_t ModelConfig::size(const char* key, std::uint64_t max) const {
  const std::uint64_t value = checkpoint::number(json_, key, max, what_);
  if (value == 0) fail(str("'", key, "' is 0"));
  return static_cast<std::int64_t>(value);
}

std::int64_t ModelConfig::size_or(const char* key, std::int64_t otherwise, std::uint64_t max) const {
  return has(key) ? size(key, max) : otherwise;
}

double ModelConfig::real_or(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_number()) fail(str("'", key, "' must be a number"));
  return json_[key].get<double>();
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
  throw Error(Code::kCheckpoint, str(what_, ": ", problem));
}

void ModelConfig::differs(const std::string& what) const {
  fail(str(what, ", which the trainer's model does not compute: it cannot be imported"));
}

void ModelConfig::require_text(const char* key, const char* otherwise, const char* computed) const {
  if (const std::string value = text_or(key, otherwise); value != computed)
    differs(str('\'', key, "' is '", printable(value), '\''));
}

void ModelConfig::require_flag(const char* key, bool computed) const {
  if (flag_or(key, computed) != computed) differs(str('\'', key, "' is ", computed ? "false" : "true"));
}

}  // namespace echelon::tool
