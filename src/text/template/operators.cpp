#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

[[noreturn]] void refuse(std::string_view sign, const Value& a, const Value& b) {
  throw Error(Code::kData, "'", sign, "' cannot be used on ", kind_of(a), " and ", kind_of(b));
}

bool contains(Tools& tools, const Value& part, const Value& whole) {
  if (const Text* text = whole.text()) {
    if (part.text() == nullptr) refuse("in", part, whole);
    tools.budget.use(text->size());
    return find(*text, *part.text()) <= text->size();
  }
  if (const Dict* dict = whole.dict()) return find_entry(dict->entries, part, tools.budget) != nullptr;
  const ListPtr list = items_of(whole, tools.budget);
  return std::ranges::any_of(list->items,
                             [&](const Value& item) { return are_equal(item, part, tools.budget); });
}

Value calculate_integers(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool over = false;
  if (sign == "+") over = __builtin_add_overflow(a, b, &result);
  if (sign == "-") over = __builtin_sub_overflow(a, b, &result);
  if (sign == "*") over = __builtin_mul_overflow(a, b, &result);
  if (sign == "//" || sign == "%") {
    over = a == std::numeric_limits<std::int64_t>::min() && b == -1;
    if (!over) {
      const bool down = a % b != 0 && (a < 0) != (b < 0);
      result = sign == "%" ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0);
    }
  }
  if (over) throw Error(Code::kData, "the result of '", sign, "' is too large");
  return result;
}

Value calculate_fractions(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/") return a / b;
  const double rest = std::fmod(a, b);
  const bool down = rest != 0 && (rest < 0) != (b < 0);
  if (sign == "%") return down ? rest + b : rest;
  const double whole = (a - rest) / b - (down ? 1 : 0);  // 7 // 0.1 is 69, as 0.1 is a little more than that
  return whole - std::floor(whole) > 0.5 ? std::floor(whole) + 1 : std::floor(whole);
}

Value repeated(Tools& tools, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::uint64_t>(std::clamp<std::int64_t>(times, 0, 1 << 30));
  tools.budget.use(count * (length_of(value) + 1));
  Text text;
  Items items;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (value.text() != nullptr) append(text, *value.text());
    if (value.list() != nullptr)
      items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  }
  return value.text() != nullptr ? text_value(std::move(text))
                                 : list_value(std::move(items), value.list()->kind);
}

bool can_repeat(const Value& value) {
  return value.text() != nullptr || (value.list() != nullptr && value.list()->kind <= ListKind::kTuple);
}

}  // namespace

bool compare(Tools& tools, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "==") return are_equal(a, b, tools.budget);
  if (sign == "!=") return !are_equal(a, b, tools.budget);
  if (sign == "in") return contains(tools, a, b);
  if (sign == "not in") return !contains(tools, a, b);
  if (sign == "<") return is_less(a, b, tools.budget);
  if (sign == ">") return is_less(b, a, tools.budget);
  if (sign == "<=") return is_less(a, b, tools.budget) || are_equal(a, b, tools.budget);
  return is_less(b, a, tools.budget) || are_equal(a, b, tools.budget);
}

Value calculate(Tools& tools, std::string_view sign, const Value& a, const Value& b) {
  if (sign == "+" && a.text() != nullptr && b.text() != nullptr) {
    tools.budget.use(a.text()->size() + b.text()->size());
    Text text = *a.text();
    append(text, *b.text());
    return text_value(std::move(text));
  }
  if (sign == "+" && can_repeat(a) && can_repeat(b) && a.list() != nullptr && b.list() != nullptr &&
      a.list()->kind == b.list()->kind) {
    tools.budget.use(4 * (a.list()->items.size() + b.list()->items.size()));
    Items items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return list_value(std::move(items), a.list()->kind);
  }
  if (sign == "*" && can_repeat(a) && is_integer(b)) return repeated(tools, a, integer_of(b));
  if (sign == "*" && is_integer(a) && can_repeat(b)) return repeated(tools, b, integer_of(a));
  if (!is_number(a) || !is_number(b)) refuse(sign, a, b);
  const bool divides = sign == "/" || sign == "//" || sign == "%";
  if (divides && float_of(b) == 0) throw Error(Code::kData, "division by zero");
  if (is_integer(a) && is_integer(b) && sign != "/")
    return calculate_integers(sign, integer_of(a), integer_of(b));
  return calculate_fractions(sign, float_of(a), float_of(b));
}

}  // namespace echelon::data::jinja
