#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/str.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

Value method_of(const Value& object, const std::string& name) {
  const Builtin* builtin = find_method(object, name);
  if (builtin == nullptr) return Undefined{name};
  return Callable{nullptr, nullptr, builtin, std::make_shared<const Value>(object)};
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const Items& items = loop.list->items;
  const auto at = static_cast<std::int64_t>(loop.at);
  const std::int64_t size = std::ssize(items);
  if (name == "index") return at + 1;
  if (name == "index0") return at;
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == size;
  if (name == "length") return size;
  if (name == "revindex") return size - at;
  if (name == "revindex0") return size - at - 1;
  if (name == "previtem" && at > 0) return items[loop.at - 1];
  if (name == "nextitem" && at + 1 < size) return items[loop.at + 1];
  if (name != "previtem" && name != "nextitem")
    throw Error(Code::kData, "loop.", printable(name), " is not supported");
  return Undefined{name};
}

/// Where an index lies; nothing outside.
std::optional<std::size_t> place_of(const Value& key, std::size_t size) {
  if (!is_integer(key)) return std::nullopt;
  const std::int64_t at = integer_of(key) + (integer_of(key) < 0 ? static_cast<std::int64_t>(size) : 0);
  if (at < 0 || at >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<std::size_t>(at);
}

void refuse_undefined(const Value& object) {
  if (const auto* undefined = object.as<Undefined>())
    throw Error(Code::kData, "'", printable(undefined->name), "' is undefined");
}

/// What Python's slice.indices() gives.
struct Steps {
  Steps(const Value& begin, const Value& end, const Value& by, std::int64_t size) {
    step = by.is<None>() ? 1 : integer_of(by);
    if (step == 0) throw Error(Code::kData, "the step of a slice is 0");
    const std::int64_t low = step > 0 ? 0 : -1;
    const std::int64_t high = step > 0 ? size : size - 1;
    const auto bound = [&](const Value& value, std::int64_t otherwise) {
      if (value.is<None>()) return otherwise;
      const std::int64_t given = integer_of(value);
      return std::clamp(given < 0 ? given + size : given, low, high);
    };
    first = bound(begin, step > 0 ? low : high);
    last = bound(end, step > 0 ? high : low);
  }
  template <class Container>
  Container of(const Container& from) const {
    Container made;
    for (std::int64_t at = first; step > 0 ? at < last : at > last;) {
      made.push_back(from[static_cast<std::size_t>(at)]);
      if (__builtin_add_overflow(at, step, &at)) break;
    }
    return made;
  }
  std::int64_t step, first, last;
};

}  // namespace

Value attribute_of(Tools& tools, const Value& object, const std::string& name) {
  refuse_undefined(object);
  if (const auto* loop = object.as<LoopPtr>()) return loop_attribute(**loop, name);
  const Value key = text_value(name);
  const Value* found = nullptr;
  if (const auto* space = object.as<NamespacePtr>()) {
    found = find_entry((*space)->entries, key, tools.budget);
  } else {
    Value method = method_of(object, name);
    if (!method.is<Undefined>()) return method;
    if (object.dict() != nullptr) found = find_entry(object.dict()->entries, key, tools.budget);
  }
  return found != nullptr ? *found : Value(Undefined{name});
}

Value item_of(Tools& tools, const Value& object, const Value& key) {
  refuse_undefined(object);
  if (const Dict* dict = object.dict()) {
    if (const Value* found = find_entry(dict->entries, key, tools.budget)) return *found;
  }
  const List* list = object.list();
  if (list != nullptr && list->kind <= ListKind::kRange) {
    if (const auto at = place_of(key, list->items.size())) return list->items[*at];
  }
  if (const Text* text = object.text()) {
    if (const auto at = place_of(key, text->size())) return text_value(Text{(*text)[*at]});
  }
  if (key.text() != nullptr && object.dict() == nullptr)
    return attribute_of(tools, object, to_utf8(*key.text()));
  if (key.text() != nullptr) return method_of(object, to_utf8(*key.text()));
  return Undefined{"item"};
}

Value slice_of(Tools& tools, const Value& object, const Value& begin, const Value& end, const Value& step) {
  refuse_undefined(object);
  const List* list = object.list();
  if (object.text() == nullptr && (list == nullptr || list->kind > ListKind::kTuple))
    throw Error(Code::kData, "a slice cannot be taken of ", kind_of(object));
  const Steps steps(begin, end, step, static_cast<std::int64_t>(length_of(object)));
  tools.budget.use(length_of(object));
  if (object.text() != nullptr) return text_value(steps.of(*object.text()));
  return list_value(steps.of(list->items), list->kind);
}

}  // namespace echelon::data::jinja
