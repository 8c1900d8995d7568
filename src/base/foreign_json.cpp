#include "base/foreign_json.h"

#include <cmath>
#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon {
namespace {

/// The part of the parser's message after its own numbers: ": syntax error while parsing value - unexpected
/// '}'".
std::string reason_of(const std::exception& e) {
  const std::string_view text = e.what();
  const auto reason = text.find(": syntax error");
  return reason == std::string_view::npos ? "" : printable(text.substr(reason), 200);
}

/// Builds the value from SAX events, so that limits apply before memory is allocated.
template <class Json>
class Builder : public nlohmann::json_sax<Json> {
  using Base = nlohmann::json_sax<Json>;
  using typename Base::binary_t, typename Base::number_float_t, typename Base::number_integer_t,
      typename Base::number_unsigned_t, typename Base::string_t;

 public:
  using Take = std::function<std::string(const std::string& name, const Json& value)>;
  /// `take`: gets the members of the outermost object; null: they stay in it.
  Builder(const JsonLimits& limits, const Take* take) : limits_(limits), take_(take) {}
  [[nodiscard]] Json take() { return std::move(root_); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& spelling) override {
    if (!std::isfinite(value)) return fail(str("number ", printable(spelling, 40), " is out of range"));
    if (limits_.exact_integers && spelling.find_first_of(".eE") == string_t::npos)
      return fail(str("integer ", printable(spelling, 40), " has more than 64 bits; write it as a text"));
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    constexpr std::size_t kMostOrdered = 1024;  // each is looked for among those before it
    if (!std::is_same_v<Json, nlohmann::json> && open_.back()->size() >= kMostOrdered)
      return fail(str("more than ", kMostOrdered, " keys in one object"));
    if (limits_.unique_keys && open_.back()->contains(name))
      return fail(str("key '", printable(name), "' appears twice in one object"));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    const bool range = dynamic_cast<const typename Json::out_of_range*>(&e) != nullptr;
    return fail(str(range ? "number out of range" : "not valid JSON", " at byte ", position, reason_of(e)));
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
    if (!has_room()) return false;
    place(std::move(value));
    return give_away();
  }
  bool has_room() {
    return take_ == nullptr || ++values_ <= kMostValues ||
           fail(str("more than ", kMostValues, " values in one member"));
  }
  /// Each value that is complete calls it.
  bool give_away() {
    if (take_ == nullptr || open_.size() != 1 || !root_.is_object()) return true;
    std::string problem = (*take_)(root_.begin().key(), root_.begin().value());
    root_.clear();
    values_ = 0;
    return problem.empty() || fail(std::move(problem));
  }
  // The pointers in open_ stay valid: a container gets no new member while one of its members is open.
  bool open(Json&& container) {
    if (open_.size() >= static_cast<std::size_t>(limits_.depth))
      return fail(str("nested deeper than ", limits_.depth, " levels"));
    if (!open_.empty() && !has_room()) return false;
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return give_away();
  }

  const JsonLimits& limits_;
  const Take* take_;
  std::size_t values_ = 0;  ///< of the member that is being read
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string problem_;
};

/// Returns the problem, or "".
template <class Json>
std::string read_into(Json& value, std::string_view text, const JsonLimits& limits,
                      const typename Builder<Json>::Take* take = nullptr) {
  if (text.size() > limits.bytes) return str(text.size(), " bytes, expected at most ", limits.bytes);
  if (text.starts_with("\xEF\xBB\xBF"))  // the parser would pass over it, other readers do not
    return "it begins with a byte order mark; save it as UTF-8 without one";
  // The parser takes a zero byte as the end of the text and would ignore what follows.
  if (text.find('\0') != std::string_view::npos) return "not valid JSON: it holds a zero byte";
  Builder<Json> builder(limits, take);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return builder.problem().empty() ? "not valid JSON" : builder.problem();
  value = builder.take();
  return "";
}

template <class Json>
Json parsed(std::string_view text, const std::string& what, Code code, const JsonLimits& limits) {
  Json value;
  const std::string problem = read_into(value, text, limits);
  if (!problem.empty()) throw Error(code, what, ": ", problem);
  return value;
}

}  // namespace

ForeignJson read_foreign_json(std::string_view text, const JsonLimits& limits) {
  ForeignJson read;
  read.problem = read_into(read.value, text, limits);
  return read;
}

std::string read_members(std::string_view text, const TakeMember& take, const JsonLimits& limits) {
  nlohmann::json rest;
  return read_into(rest, text, limits, &take);
}

nlohmann::json parse_foreign_json(std::string_view text, const std::string& what, Code code,
                                  const JsonLimits& limits) {
  return parsed<nlohmann::json>(text, what, code, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& what, Code code,
                                          const JsonLimits& limits) {
  return parsed<nlohmann::ordered_json>(text, what, code, limits);
}

}  // namespace echelon
