#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/str.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

const Text& text_argument(const std::optional<Value>& given, std::string_view method) {
  const Text* text = given ? given->text() : nullptr;
  if (text == nullptr) throw Error(Code::kData, "'", method, "' takes a text");
  return *text;
}

template <bool kLeft, bool kRight>
Value stripped(Tools&, const Value& self, const Bound& given) {
  const bool blank = !given[0] || given[0]->is<None>();
  return text_value(strip(*self.text(), blank ? nullptr : &text_argument(given[0], "strip"), kLeft, kRight));
}

/// Python's str.split() by white space.
Items words(const Text& text, std::int64_t most) {
  Items parts;
  std::size_t at = 0;
  while (true) {
    while (at < text.size() && is_space(text[at].code)) ++at;
    if (at == text.size()) return parts;
    std::size_t end = at;
    while (end < text.size() && !is_space(text[end].code)) ++end;
    if (most-- == 0) end = text.size();
    parts.push_back(text_value(slice(text, at, end)));
    at = end;
  }
}

Value split(Tools& tools, const Value& self, const Bound& given) {
  const Text& text = *self.text();
  std::int64_t most = given[1] ? integer_of(*given[1]) : -1;
  tools.budget.use(4 * text.size());
  if (!given[0] || given[0]->is<None>()) return list_value(words(text, most));
  const Text& by = text_argument(given[0], "split");
  if (by.empty()) throw Error(Code::kData, "'split' has an empty separator");
  Items parts;
  std::size_t at = 0;
  for (std::size_t found = 0; (found = find(text, by, at)) <= text.size() && most != 0; --most) {
    parts.push_back(text_value(slice(text, at, found)));
    at = found + by.size();
  }
  parts.push_back(text_value(slice(text, at, text.size())));
  return list_value(std::move(parts));
}

/// A text, or one of a tuple of texts.
template <bool kEnd>
Value has_edge(Tools& tools, const Value& self, const Bound& given) {
  const Text& text = *self.text();
  const auto fits = [&](const Value& value) {
    const Text& part = text_argument(value, kEnd ? "endswith" : "startswith");
    tools.budget.use(part.size());
    if (part.size() > text.size()) return false;
    return kEnd ? std::equal(part.rbegin(), part.rend(), text.rbegin())
                : std::equal(part.begin(), part.end(), text.begin());
  };
  const List* list = given[0] ? given[0]->list() : nullptr;
  if (list != nullptr && list->kind == ListKind::kTuple) return std::ranges::any_of(list->items, fits);
  return fits(given[0].value_or(None()));
}

/// Unlike the filter of this name: words begin behind everything that is no letter.
Value titled(Tools&, const Value& self, const Bound&) {
  return text_value(title(*self.text()));
}

constexpr std::array kTextMethods{
    Builtin{"strip", "chars", stripped<true, true>},
    Builtin{"lstrip", "chars", stripped<true, false>},
    Builtin{"rstrip", "chars", stripped<false, true>},
    Builtin{"split", "sep maxsplit", split},
    Builtin{"startswith", "prefix", has_edge<false>},
    Builtin{"endswith", "suffix", has_edge<true>},
    Builtin{"title", "", titled},
};

/// Filters that are methods, too.
constexpr std::array<std::string_view, 4> kTextFilters{"upper", "lower", "capitalize", "replace"};

Value entry(Tools& tools, const Value& self, const Bound& given) {
  if (!given[0]) throw Error(Code::kData, "'get' takes a key");
  const Value* found = find_entry(self.dict()->entries, *given[0], tools.budget);
  return found != nullptr ? *found : given[1].value_or(None());
}

template <int kPart>
Value view(Tools& tools, const Value& self, const Bound&) {
  Items items;
  for (const auto& [key, value] : self.dict()->entries)
    items.push_back(kPart == 0 ? key : kPart == 1 ? value : list_value({key, value}, ListKind::kTuple));
  tools.budget.use(16 * items.size());
  return list_value(std::move(items), ListKind::kView);
}

constexpr std::array kDictMethods{
    Builtin{"get", "key default", entry},
    Builtin{"keys", "", view<0>},
    Builtin{"values", "", view<1>},
    Builtin{"items", "", view<2>},
};

Value unsupported(Tools&, const Value& self, const Arguments&) {
  throw Error(Code::kData, "this method of ", kind_of(self), " is not supported");
}

// What else Python has: these names are methods even where a dictionary has such a key.
constexpr std::array<std::string_view, 34> kOtherText{
    "casefold",   "center",    "count",      "encode",    "expandtabs",   "find",         "format",
    "format_map", "index",     "isalnum",    "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "islower",    "isnumeric", "isspace",    "istitle",   "isupper",      "isidentifier", "isprintable",
    "join",       "ljust",     "maketrans",  "partition", "removeprefix", "removesuffix", "rfind",
    "rindex",     "rjust",     "rpartition", "rsplit",    "splitlines",   "swapcase"};
constexpr std::array<std::string_view, 7> kOtherDict{"clear",   "copy",       "fromkeys", "pop",
                                                     "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 11> kOtherList{
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"};
constexpr Builtin kUnsupported{"a method", "*", nullptr, unsupported};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) {
    if (has(kTextFilters, name)) return find_filter(name);
    const Builtin* found = find_in(kTextMethods, name);
    return found == nullptr && has(kOtherText, name) ? &kUnsupported : found;
  }
  if (self.dict() != nullptr) {
    const Builtin* found = find_in(kDictMethods, name);
    return found == nullptr && has(kOtherDict, name) ? &kUnsupported : found;
  }
  return self.list() != nullptr && has(kOtherList, name) ? &kUnsupported : nullptr;
}

}  // namespace echelon::data::jinja
