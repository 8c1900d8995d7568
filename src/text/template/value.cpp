#include "text/template/value.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"

namespace echelon::data::jinja {
namespace {

constexpr int kDeepest = 100;

int depth_of(const Value& value) {
  if (value.is<NamespacePtr>())
    throw Error(Code::kData, "a namespace cannot be put into a list, a dictionary or a namespace");
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

int checked_depth(int depth) {
  if (depth > kDeepest) throw Error(Code::kData, "values are nested deeper than ", kDeepest, " levels");
  return depth;
}

bool are_equal_lists(const List& a, const List& b, Budget& budget) {
  return a.kind == b.kind && std::ranges::equal(a.items, b.items, [&](const auto& x, const auto& y) {
           return are_equal(x, y, budget);
         });
}

bool are_equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  return a.entries.size() == b.entries.size() && std::ranges::all_of(a.entries, [&](const auto& entry) {
           const Value* other = find_entry(b.entries, entry.first, budget);
           return other != nullptr && are_equal(entry.second, *other, budget);
         });
}

}  // namespace

void Budget::use(std::uint64_t work) {
  if (work > left_) {
    left_ = 0;
    throw Error(Code::kData, "it takes more work than a conversation can need; does the template loop?");
  }
  left_ -= work;
}

Value text_value(Text text) {
  return std::make_shared<const Text>(std::move(text));
}
Value text_value(std::string_view utf8) {
  return text_value(to_text(utf8));
}

Value list_value(Items items, ListKind kind) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return std::make_shared<List>(List{kind, std::move(items), checked_depth(depth + 1)});
}

Value dict_value(Entries entries) {
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  return std::make_shared<const Dict>(Dict{std::move(entries), checked_depth(depth + 1)});
}

Value from_json(const nlohmann::ordered_json& json, std::int32_t origin) {
  if (json.is_null()) return None();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return text_value(to_text(json.get_ref<const std::string&>(), origin));
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw Error(Code::kData, "the number ", json.dump(), " is too large");
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_array())
    return list_value(mapped(json, [&](const auto& item) { return from_json(item, origin); }));
  Entries entries;
  for (const auto& [key, item] : json.items())
    entries.emplace_back(text_value(to_text(key, origin)), from_json(item, origin));
  return dict_value(std::move(entries));
}

std::string kind_of(const Value& value) {
  if (const auto* undefined = value.as<Undefined>())
    return str("'", printable(undefined->name), "', undefined");
  if (const List* list = value.list()) {
    constexpr std::array kNames{"a list", "a tuple", "a range", "a view of a dictionary",
                                "a stream of items"};
    return kNames.at(static_cast<std::size_t>(list->kind));
  }
  constexpr std::array kNames{"undefined",   "none",   "a boolean", "an integer",
                              "a fraction",  "a text", "a list",    "a dictionary",
                              "a namespace", "a loop", "a function"};
  return kNames.at(value.index());
}

bool is_true(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (is_number(value)) return float_of(value) != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return list->kind == ListKind::kStream || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

bool is_number(const Value& value) {
  return is_integer(value) || value.is<double>();
}
bool is_integer(const Value& value) {
  return value.is<bool>() || value.is<std::int64_t>();
}

std::int64_t integer_of(const Value& value) {
  if (const bool* flag = value.as<bool>()) return *flag ? 1 : 0;
  if (const auto* number = value.as<std::int64_t>()) return *number;
  throw Error(Code::kData, "expected an integer, found ", kind_of(value));
}

double float_of(const Value& value) {
  if (const double* number = value.as<double>()) return *number;
  return static_cast<double>(integer_of(value));
}

bool are_equal(const Value& a, const Value& b, Budget& budget) {
  budget.use(1);
  if (is_integer(a) && is_integer(b)) return integer_of(a) == integer_of(b);
  if (is_number(a) && is_number(b)) return float_of(a) == float_of(b);
  if (a.index() != b.index()) return false;
  if (const Text* text = a.text()) {
    if (text->size() != b.text()->size()) return false;
    budget.use(text->size() / 8);
    return *text == *b.text();
  }
  if (a.list() != nullptr) return a.list() == b.list() || are_equal_lists(*a.list(), *b.list(), budget);
  if (a.dict() != nullptr) return a.dict() == b.dict() || are_equal_dicts(*a.dict(), *b.dict(), budget);
  if (const auto* space = a.as<NamespacePtr>()) return *space == *b.as<NamespacePtr>();
  if (const auto* loop = a.as<LoopPtr>()) return *loop == *b.as<LoopPtr>();
  return a.is<None>() || a.is<Undefined>();
}

bool is_less(const Value& a, const Value& b, Budget& budget) {
  budget.use(1);
  if (is_integer(a) && is_integer(b)) return integer_of(a) < integer_of(b);
  if (is_number(a) && is_number(b)) return float_of(a) < float_of(b);
  if (a.text() != nullptr && b.text() != nullptr) {
    budget.use(std::min(a.text()->size(), b.text()->size()));
    return *a.text() < *b.text();
  }
  const List* x = a.list();
  const List* y = b.list();
  if (x == nullptr || y == nullptr || x->kind != y->kind || x->kind > ListKind::kTuple)
    throw Error(Code::kData, kind_of(a), " and ", kind_of(b), " have no order");
  for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!are_equal(x->items[i], y->items[i], budget)) return is_less(x->items[i], y->items[i], budget);
  }
  return x->items.size() < y->items.size();
}

const Value* find_entry(const Entries& entries, const Value& key, Budget& budget) {
  if (key.dict() != nullptr || (key.list() != nullptr && key.list()->kind == ListKind::kList))
    throw Error(Code::kData, kind_of(key), " cannot be a key");
  const auto found =
      std::ranges::find_if(entries, [&](const auto& entry) { return are_equal(entry.first, key, budget); });
  return found == entries.end() ? nullptr : &found->second;
}

void set_entry(Entries& entries, const Value& key, const Value& value, Budget& budget) {
  const auto known =
      std::ranges::find_if(entries, [&](const auto& entry) { return are_equal(entry.first, key, budget); });
  if (known == entries.end()) {
    entries.emplace_back(key, value);
  } else {
    known->second = value;
  }
}

ListPtr items_of(const Value& value, Budget& budget) {
  Items items;
  if (List* list = value.list()) {
    if (list->kind != ListKind::kStream) return *value.as<ListPtr>();
    items.swap(list->items);
  } else if (const Text* text = value.text()) {
    budget.use(16 * text->size());
    for (const Char c : *text) items.push_back(text_value(Text{c}));
  } else if (const Dict* dict = value.dict()) {
    budget.use(dict->entries.size());
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (!value.is<Undefined>()) {
    throw Error(Code::kData, kind_of(value), " has no items to go through");
  }
  return std::make_shared<List>(List{ListKind::kList, std::move(items), 1});
}

std::size_t length_of(const Value& value) {
  if (const Text* text = value.text()) return text->size();
  if (const Dict* dict = value.dict()) return dict->entries.size();
  const List* list = value.list();
  if (list != nullptr && list->kind != ListKind::kStream) return list->items.size();
  if (value.is<Undefined>()) return 0;
  throw Error(Code::kData, kind_of(value), " has no length");
}

}  // namespace echelon::data::jinja
