#include "checkpoint/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/str.h"

namespace echelon::checkpoint {
namespace {

/// Builds the value while the parser reports events, so that limits act before memory is spent.
class Builder : public nlohmann::json_sax<Json> {
 public:
  [[nodiscard]] Json take() { return std::move(root_); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& spelling) override {
    if (!std::isfinite(value)) return fail(str("number ", spelling.substr(0, 40), " is out of range"));
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name))
      return fail(str("key '", printable(name), "' appears twice in one object"));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    const bool range = dynamic_cast<const Json::out_of_range*>(&e) != nullptr;
    return fail(str(range ? "number out of range" : "not valid JSON", " at byte ", position));
  }

 private:
  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  Json* place(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    return &((*open_.back())[key_] = std::move(value));
  }
  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }
  // Pointers stay good: a container gets no new member while one of its members is open.
  bool open(Json&& container) {
    if (open_.size() >= kMaxJsonDepth) return fail(str("nested deeper than ", kMaxJsonDepth, " levels"));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string problem_;
};

}  // namespace

Json parse_json(std::string_view source, const std::string& what) {
  // The parser takes a zero byte for the end of the text and would not look at what follows it.
  if (source.find('\0') != std::string_view::npos)
    throw Error(Code::kCheckpoint, str(what, ": not valid JSON: it holds a zero byte"));
  Builder builder;
  if (!Json::sax_parse(source.begin(), source.end(), &builder)) {
    throw Error(Code::kCheckpoint,
                str(what, ": ", builder.problem().empty() ? "not valid JSON" : builder.problem()));
  }
  return builder.take();
}

std::string canonical_text(const Json& value) {
  return value.dump(2) + "\n";
}

const Json& member(const Json& object, const char* key, const std::string& what) {
  if (!object.is_object()) throw Error(Code::kCheckpoint, str(what, ": expected an object with '", key, "'"));
  const auto found = object.find(key);
  if (found == object.end()) throw Error(Code::kCheckpoint, str(what, ": '", key, "' is missing"));
  return *found;
}

std::uint64_t number(const Json& object, const char* key, std::uint64_t max, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    throw Error(Code::kCheckpoint, str(what, ": '", key, "' must be a whole number from 0 to ", max));
  }
  return value.get<std::uint64_t>();
}

std::string text(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_string()) throw Error(Code::kCheckpoint, str(what, ": '", key, "' must be text"));
  return value.get<std::string>();
}

namespace {

template <class Number>
std::string hex(Number value) {
  std::array<char, 2 * sizeof(Number) + 1> digits{};
  std::snprintf(digits.data(), digits.size(), "%0*llx", static_cast<int>(2 * sizeof(Number)),
                static_cast<unsigned long long>(value));
  return digits.data();
}

/// All the digits of a Number, spelled as hex() does.
template <class Number>
Number parse_hex(const Json& object, const char* key, const std::string& what) {
  const std::string digits = text(object, key, what);
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc{} || end != digits.data() + digits.size() || hex(value) != digits) {
    throw Error(Code::kCheckpoint, str(what, ": '", key, "' must be ",
                                       sizeof(Number) == 4 ? "eight" : "sixteen", " lower-case hex digits"));
  }
  return value;
}

}  // namespace

std::uint32_t checksum(const Json& object, const char* key, const std::string& what) {
  return parse_hex<std::uint32_t>(object, key, what);
}
std::string checksum_text(std::uint32_t crc) {
  return hex(crc);
}

std::uint64_t fingerprint(const Json& object, const char* key, const std::string& what) {
  return parse_hex<std::uint64_t>(object, key, what);
}
std::string fingerprint_text(std::uint64_t crc) {
  return hex(crc);
}

}  // namespace echelon::checkpoint
