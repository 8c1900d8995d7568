#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/str.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

bool flag(const std::optional<Value>& value) {
  return value && is_true(*value);
}

Value tojson(Tools& tools, const Value& self, const Bound& given) {
  int indent = -1;
  if (given[1] && !given[1]->is<None>()) {
    const std::int64_t asked = integer_of(*given[1]);
    if (asked < 0 || asked > 100)
      throw Error(Code::kData, "the indent of 'tojson' is ", asked, ", expected 0 to 100");
    indent = static_cast<int>(asked);
  }
  if (given[2] && !given[2]->is<None>())
    throw Error(Code::kData, "'separators' of 'tojson' is not supported");
  return text_value(json_of(self, tools.budget, flag(given[0]), indent, flag(given[3])));
}

Value trim(Tools& tools, const Value& self, const Bound& given) {
  const Text* set = given[0] ? given[0]->text() : nullptr;
  return text_value(strip(as_text(self, tools.budget), set, true, true));
}

Value length(Tools&, const Value& self, const Bound&) {
  return static_cast<std::int64_t>(length_of(self));
}

Value string(Tools& tools, const Value& self, const Bound&) {
  return text_value(as_text(self, tools.budget));
}

template <Text (*kChange)(const Text&)>
Value changed(Tools& tools, const Value& self, const Bound&) {
  return text_value(kChange(as_text(self, tools.budget)));
}

/// Words begin behind white space and opening brackets.
Value title(Tools& tools, const Value& self, const Bound&) {
  const Text text = as_text(self, tools.budget);
  Text made;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool parts =
        i < text.size() && (is_space(text[i].code) || to_utf8({text[i]}).find_first_of("-({[<") == 0);
    if (i < text.size() && !parts) continue;
    if (i > begin) {
      append(made, upper(slice(text, begin, begin + 1)));
      append(made, lower(slice(text, begin + 1, i)));
    }
    if (i < text.size()) made.push_back(text[i]);
    begin = i + 1;
  }
  return text_value(std::move(made));
}

Value join(Tools& tools, const Value& self, const Bound& given) {
  const Text between = given[0] ? as_text(*given[0], tools.budget) : Text();
  const ListPtr list = items_of(self, tools.budget);
  Text made;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    Value item = list->items[i];
    if (given[1]) item = item_of(tools, item, *given[1]);
    const Text text = as_text(item, tools.budget);
    tools.budget.use(between.size() + text.size());
    if (i > 0) append(made, between);
    append(made, text);
  }
  return text_value(std::move(made));
}

Value replace(Tools& tools, const Value& self, const Bound& given) {
  if (!given[0] || !given[1]) throw Error(Code::kData, "'replace' takes the old and the new text");
  const Text text = as_text(self, tools.budget);
  const Text from = as_text(*given[0], tools.budget);
  const Text to = as_text(*given[1], tools.budget);
  std::int64_t left = given[2] && !given[2]->is<None>() ? integer_of(*given[2]) : -1;
  Text made;
  std::size_t at = 0;
  for (std::size_t found = find(text, from); found <= text.size() && left != 0; --left) {
    tools.budget.use(found - at + to.size() + from.size() + 1);
    append(made, slice(text, at, found));
    append(made, to);
    at = found + from.size();
    if (from.empty() && found < text.size()) made.push_back(text[at++]);
    found = from.empty() && found == text.size() ? text.size() + 1 : find(text, from, at);
  }
  append(made, slice(text, std::min(at, text.size()), text.size()));
  return text_value(std::move(made));
}

Value otherwise(Tools&, const Value& self, const Bound& given) {
  const bool absent = self.is<Undefined>() || (flag(given[1]) && !is_true(self));
  return absent ? given[0].value_or(text_value(Text())) : self;
}

Value list(Tools& tools, const Value& self, const Bound&) {
  return list_value(items_of(self, tools.budget)->items);
}

Value items(Tools& tools, const Value& self, const Bound&) {
  if (self.dict() == nullptr && !self.is<Undefined>())
    throw Error(Code::kData, kind_of(self), " has no entries");
  Items made;
  if (self.dict() != nullptr) {
    for (const auto& [key, value] : self.dict()->entries)
      made.push_back(list_value({key, value}, ListKind::kTuple));
  }
  tools.budget.use(16 * made.size());
  return list_value(std::move(made), ListKind::kStream);
}

Value dictsort(Tools& tools, const Value& self, const Bound& given) {
  if (self.dict() == nullptr) throw Error(Code::kData, kind_of(self), " has no entries");
  const bool by_value = given[1] && given[1]->text() != nullptr && to_utf8(*given[1]->text()) == "value";
  std::vector<std::pair<Value, Value>> sorted;
  for (const auto& [key, value] : self.dict()->entries) {
    Value order = by_value ? value : key;
    if (order.text() != nullptr && !flag(given[0])) order = text_value(lower(*order.text()));
    sorted.emplace_back(order, list_value({key, value}, ListKind::kTuple));
  }
  std::ranges::stable_sort(sorted, [&](const auto& a, const auto& b) {
    return flag(given[2]) ? is_less(b.first, a.first, tools.budget) : is_less(a.first, b.first, tools.budget);
  });
  Items made;
  for (auto& entry : sorted) made.push_back(std::move(entry.second));
  tools.budget.use(16 * made.size());
  return list_value(std::move(made));
}

Value to_integer(Tools& tools, const Value& self, const Bound& given) {
  const Value fallback = given[0].value_or(std::int64_t{0});
  if (is_integer(self)) return integer_of(self);
  double number = 0;
  if (const Text* text = self.text()) {
    const std::string trimmed = to_utf8(strip(*text, nullptr, true, true));
    if (trimmed.find('_') != std::string::npos) throw Error(Code::kData, "'int' of a text with '_'");
    if (trimmed.empty() || trimmed.find_first_not_of("+-0123456789.eE") != std::string::npos) return fallback;
    char* end = nullptr;
    number = std::strtod(trimmed.c_str(), &end);
    if (*end != '\0') return fallback;
  } else if (self.is<double>()) {
    number = float_of(self);
  } else {
    if (self.is<Undefined>()) throw Error(Code::kData, "'int' of ", kind_of(self));
    return fallback;
  }
  tools.budget.use(1);
  constexpr double kExact = 9007199254740992.0;
  if (!(number > -kExact && number < kExact)) throw Error(Code::kData, "a number is too large for 'int'");
  return static_cast<std::int64_t>(number);
}

Value first(Tools& tools, const Value& self, const Bound&) {
  const ListPtr all = items_of(self, tools.budget);
  return all->items.empty() ? Value(Undefined{"first"}) : all->items.front();
}

Value last(Tools& tools, const Value& self, const Bound&) {
  if (self.list() != nullptr && self.list()->kind == ListKind::kStream)
    throw Error(Code::kData, "'last' of a stream of items; put 'list' before it");
  const ListPtr all = items_of(self, tools.budget);
  return all->items.empty() ? Value(Undefined{"last"}) : all->items.back();
}

/// "a.b.0" of an item; `fallback`, if any, for each part that is undefined.
Value path_of(Tools& tools, const Value& item, const Value& path, const Value* fallback) {
  if (is_integer(path)) return item_of(tools, item, path);
  std::string rest = to_utf8(as_text(path, tools.budget));
  Value value = item;
  while (true) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string name = rest.substr(0, dot);
    const bool number =
        !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos;
    value = item_of(tools, value, number ? Value(std::int64_t{std::atoi(name.c_str())}) : text_value(name));
    if (fallback != nullptr && value.is<Undefined>()) value = *fallback;
    if (dot == rest.size()) return value;
    rest.erase(0, dot + 1);
  }
}

/// Jinja2 takes whatever is not true for a list without items.
ListPtr items_if_any(Tools& tools, const Value& value) {
  return items_of(is_true(value) ? value : Value(), tools.budget);
}

Value map(Tools& tools, const Value& self, const Arguments& given) {
  Items made;
  const ListPtr all = items_if_any(tools, self);
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : given.named) {
    if (name == "attribute") attribute = &value;
    if (name == "default") fallback = &value;
  }
  const std::string name = given.places.empty() ? "" : to_utf8(as_text(given.places[0], tools.budget));
  const Builtin* filter = find_filter(name);
  if (attribute == nullptr && filter == nullptr)
    throw Error(Code::kData, "no filter '", printable(name), "' is known for 'map'");
  for (const Value& item : all->items) {
    if (attribute != nullptr) {
      made.push_back(path_of(tools, item, *attribute, fallback));
    } else {
      made.push_back(
          call_builtin(tools, *filter, item, {{given.places.begin() + 1, given.places.end()}, given.named}));
    }
  }
  return list_value(std::move(made), ListKind::kStream);
}

/// select, reject and their forms for an attribute.
template <bool kByAttribute, bool kWanted>
Value choose(Tools& tools, const Value& self, const Arguments& given) {
  Items rest = given.places;
  Value path;
  if (kByAttribute) {
    if (rest.empty()) throw Error(Code::kData, "'selectattr' takes the name of an attribute");
    path = rest.front();
    rest.erase(rest.begin());
  }
  const Builtin* test = nullptr;
  if (!rest.empty()) {
    const std::string name = to_utf8(as_text(rest.front(), tools.budget));
    test = find_test(name);
    if (test == nullptr) throw Error(Code::kData, "no test '", printable(name), "' is known");
    rest.erase(rest.begin());
  }
  Items made;
  const ListPtr all = items_if_any(tools, self);
  for (const Value& item : all->items) {
    const Value subject = kByAttribute ? path_of(tools, item, path, nullptr) : item;
    const Value passed = test == nullptr ? subject : call_builtin(tools, *test, subject, {rest, given.named});
    if (is_true(passed) == kWanted) made.push_back(item);
  }
  return list_value(std::move(made), ListKind::kStream);
}

constexpr std::array kFilters{
    Builtin{"tojson", "ensure_ascii indent separators sort_keys", tojson},
    Builtin{"trim", "chars", trim},
    Builtin{"length", "", length},
    Builtin{"count", "", length},
    Builtin{"string", "", string},
    Builtin{"safe", "", string},
    Builtin{"items", "", items},
    Builtin{"join", "d attribute", join},
    Builtin{"default", "default_value boolean", otherwise},
    Builtin{"d", "default_value boolean", otherwise},
    Builtin{"list", "", list},
    Builtin{"upper", "", changed<upper>},
    Builtin{"lower", "", changed<lower>},
    Builtin{"capitalize", "", changed<capitalize>},
    Builtin{"title", "", title},
    Builtin{"dictsort", "case_sensitive by reverse", dictsort},
    Builtin{"int", "default", to_integer},
    Builtin{"first", "", first},
    Builtin{"last", "", last},
    Builtin{"replace", "old new count", replace},
    Builtin{"map", "*", nullptr, map},
    Builtin{"select", "*", nullptr, choose<false, true>},
    Builtin{"reject", "*", nullptr, choose<false, false>},
    Builtin{"selectattr", "*", nullptr, choose<true, true>},
    Builtin{"rejectattr", "*", nullptr, choose<true, false>},
};

}  // namespace

const Builtin* find_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace echelon::data::jinja
