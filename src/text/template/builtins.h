#pragma once
#include <algorithm>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace echelon::data::jinja {

struct Arguments {
  Items places;
  std::vector<std::pair<std::string, Value>> named;
};

/// The parts of a rendering that functions use.
struct Tools {
  Budget budget;
  std::optional<std::time_t> now;  ///< of strftime_now()
};

/// One value for each parameter; nothing where none was given.
using Bound = std::vector<std::optional<Value>>;

/// A filter, test, method or function. `self` is the value filtered or tested, or whose method it is.
struct Builtin {
  std::string_view name;
  /// Names apart by spaces; "*": `all` takes the arguments as they are.
  std::string_view parameters;
  Value (*call)(Tools& tools, const Value& self, const Bound& arguments);
  Value (*all)(Tools& tools, const Value& self, const Arguments& arguments) = nullptr;
};

/// The one of `list` that is called `name`. This function and the next ones return null when none is known.
template <class List>
[[nodiscard]] const Builtin* find_in(const List& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &Builtin::name);
  return found == list.end() ? nullptr : &*found;
}
[[nodiscard]] const Builtin* find_filter(std::string_view name);
[[nodiscard]] const Builtin* find_test(std::string_view name);
/// A global function.
[[nodiscard]] const Builtin* find_function(std::string_view name);
/// The method of a text, list or dictionary; one that exists in Python and is not supported throws when
/// called.
[[nodiscard]] const Builtin* find_method(const Value& self, std::string_view name);

/// Calls a builtin. Throws Error(kData) for too many or unknown arguments, and for the faults that the
/// function itself finds.
[[nodiscard]] Value call_builtin(Tools& tools, const Builtin& builtin, const Value& self,
                                 const Arguments& arguments);

/// a.b and a[b] of Jinja2, which fall back on each other.
[[nodiscard]] Value attribute_of(Tools& tools, const Value& object, const std::string& name);
[[nodiscard]] Value item_of(Tools& tools, const Value& object, const Value& key);
[[nodiscard]] Value slice_of(Tools& tools, const Value& object, const Value& begin, const Value& end,
                             const Value& step);

/// The signs of a comparison or a calculation.
[[nodiscard]] bool compare(Tools& tools, std::string_view sign, const Value& a, const Value& b);
[[nodiscard]] Value calculate(Tools& tools, std::string_view sign, const Value& a, const Value& b);

/// json.dumps() of Python. `indent`: -1 for one line.
[[nodiscard]] Text json_of(const Value& value, Budget& budget, bool ensure_ascii, int indent, bool sort_keys);

}  // namespace echelon::data::jinja
