#include "text/template/builtins.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::data::jinja {
namespace {

Bound bind(const Builtin& builtin, const Arguments& given) {
  const std::vector<std::string_view> names = words_in(builtin.parameters);
  Bound bound(names.size());
  const auto fail = [&](const std::string& text) { throw Error(Code::kData, "'", builtin.name, "' ", text); };
  if (given.places.size() > names.size())
    fail(str("takes ", names.size(), " arguments, found ", given.places.size()));
  for (std::size_t i = 0; i < given.places.size(); ++i) bound[i] = given.places[i];
  for (const auto& [name, value] : given.named) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) fail(str("has no argument '", printable(name), "'"));
    std::optional<Value>& place = bound[static_cast<std::size_t>(found - names.begin())];
    if (place) fail(str("has its argument '", name, "' twice"));
    place = value;
  }
  return bound;
}

Value range(Tools& tools, const Value&, const Bound& given) {
  constexpr std::int64_t kLongest = 100000;  // as Jinja2's sandbox has it
  if (!given[0]) throw Error(Code::kData, "'range' takes 1 to 3 integers");
  std::int64_t begin = given[1] ? integer_of(*given[0]) : 0;
  const std::int64_t end = integer_of(*given[given[1] ? 1 : 0]);
  const std::int64_t step = given[2] ? integer_of(*given[2]) : 1;
  if (step == 0) throw Error(Code::kData, "the step of 'range' is 0");
  Items items;
  const auto going = [&] { return step > 0 ? begin < end : begin > end; };
  while (going()) {
    if (std::ssize(items) == kLongest)
      throw Error(Code::kData, "'range' gives more than ", kLongest, " numbers");
    items.emplace_back(begin);
    if (__builtin_add_overflow(begin, step, &begin)) break;
  }
  tools.budget.use(4 * items.size());
  return list_value(std::move(items), ListKind::kRange);
}

Value raise_exception(Tools& tools, const Value&, const Bound& given) {
  const std::string text = to_utf8(as_text(given[0].value_or(None()), tools.budget));
  throw Error(Code::kData, "the template refuses this conversation: ", printable(text, 400));
}

Value strftime_now(Tools& tools, const Value&, const Bound& given) {
  const Text* format = given[0] ? given[0]->text() : nullptr;
  if (format == nullptr || format->size() > 200)
    throw Error(Code::kData, "'strftime_now' takes a short text");
  if (format->empty()) return text_value(Text());
  if (!tools.now) {
    throw Error(
        Code::kUsage,
        "the template writes the date of the day (strftime_now), so its text would change from day to "
        "day: name a date with --date YYYY-MM-DD");
  }
  std::array<char, 8192> room{};
  std::tm local{};
  localtime_r(&*tools.now, &local);
  const std::size_t size = std::strftime(room.data(), room.size(), to_utf8(*format).c_str(), &local);
  return text_value(std::string_view(room.data(), size));
}

Value make_namespace(Tools& tools, const Value&, const Arguments& given) {
  auto space = std::make_shared<Namespace>();
  for (const Value& value : given.places) {
    if (value.dict() == nullptr) throw Error(Code::kData, "'namespace' takes a dictionary and named values");
    space->entries = value.dict()->entries;
  }
  for (const auto& [name, value] : given.named) {
    (void)list_value({value});  // refuses what may not be held
    space->entries.emplace_back(text_value(name), value);
  }
  tools.budget.use(4 * space->entries.size());
  return space;
}

Value make_dict(Tools&, const Value&, const Arguments& given) {
  if (!given.places.empty()) throw Error(Code::kData, "'dict' takes named values only");
  Entries entries;
  for (const auto& [name, value] : given.named) entries.emplace_back(text_value(name), value);
  return dict_value(std::move(entries));
}

constexpr std::array kFunctions{
    Builtin{"range", "begin end step", range},       Builtin{"raise_exception", "message", raise_exception},
    Builtin{"strftime_now", "format", strftime_now}, Builtin{"namespace", "*", nullptr, make_namespace},
    Builtin{"dict", "*", nullptr, make_dict},
};

}  // namespace

const Builtin* find_function(std::string_view name) {
  return find_in(kFunctions, name);
}

Value call_builtin(Tools& tools, const Builtin& builtin, const Value& self, const Arguments& arguments) {
  tools.budget.use(4);
  Value made = builtin.all != nullptr ? builtin.all(tools, self, arguments)
                                      : builtin.call(tools, self, bind(builtin, arguments));
  if (made.text() != nullptr) tools.budget.use(made.text()->size());
  return made;
}

}  // namespace echelon::data::jinja
