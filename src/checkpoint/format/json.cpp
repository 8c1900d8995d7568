#include "checkpoint/format/json.h"

#include <charconv>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"

namespace echelon::checkpoint {

Json parse_json(std::string_view source, const std::string& what) {
  return parse_foreign_json(source, what, Code::kCheckpoint, {.depth = kMaxJsonDepth});
}

std::string canonical_text(const Json& value) {
  return value.dump(2) + "\n";
}

const Json& member(const Json& object, const char* key, const std::string& what) {
  if (!object.is_object()) throw Error(Code::kCheckpoint, what, ": expected an object with '", key, "'");
  const auto found = object.find(key);
  if (found == object.end()) throw Error(Code::kCheckpoint, what, ": '", key, "' is missing");
  return *found;
}

std::uint64_t number(const Json& object, const char* key, std::uint64_t max, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be a whole number from 0 to ", max);
  }
  return value.get<std::uint64_t>();
}

std::string text(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_string()) throw Error(Code::kCheckpoint, what, ": '", key, "' must be text");
  return value.get<std::string>();
}

namespace {

/// All the digits of a Number, spelled as hex_digits() does.
template <class Number>
Number parse_hex(const Json& object, const char* key, const std::string& what) {
  const std::string digits = text(object, key, what);
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc{} || end != digits.data() + digits.size() ||
      hex_digits(value, 2 * sizeof(value)) != digits) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be ", sizeof(Number) == 4 ? "eight" : "sixteen",
                " lower-case hex digits");
  }
  return value;
}

}  // namespace

std::uint32_t checksum(const Json& object, const char* key, const std::string& what) {
  return parse_hex<std::uint32_t>(object, key, what);
}
std::string checksum_text(std::uint32_t crc) {
  return hex_digits(crc, 2 * sizeof(crc));
}

std::uint64_t fingerprint(const Json& object, const char* key, const std::string& what) {
  return parse_hex<std::uint64_t>(object, key, what);
}
std::string fingerprint_text(std::uint64_t crc) {
  return hex_digits(crc, 2 * sizeof(crc));
}

}  // namespace echelon::checkpoint
