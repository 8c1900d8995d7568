#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/chars.h"

/// Values as Python has them. For source files of this module only.
namespace echelon::data::jinja {

class Value;
struct Node;
struct Scope;
struct Builtin;
using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

/// The remaining work that a template may do. Every function whose time or memory depends on its arguments
/// uses up some of it.
class Budget {
 public:
  explicit Budget(std::uint64_t left) : left_(left) {}
  /// Throws Error(kData).
  void use(std::uint64_t work);

 private:
  std::uint64_t left_;
};

/// The value of a name, an attribute or an item that does not exist.
struct Undefined {
  std::string name;
};
struct None {};

/// kView: of a dictionary's keys or values; kStream: what map() and selectattr() give, without a length.
enum class ListKind : std::uint8_t { kList, kTuple, kRange, kView, kStream };
struct List {
  ListKind kind;
  Items items;
  int depth;  ///< of lists and dictionaries in one another
};
struct Dict {
  Entries entries;
  int depth;
};
/// The only value that changes. No other value may hold one, so values form no ring.
struct Namespace {
  Entries entries;
};
struct Loop {
  std::shared_ptr<const List> list;
  std::size_t at;
};
/// A macro with the scope it was made in, or a function with the value it is a method of.
struct Callable {
  const Node* macro;
  Scope* scope;
  const Builtin* builtin;
  std::shared_ptr<const Value> self;
};

using TextPtr = std::shared_ptr<const Text>;
using ListPtr = std::shared_ptr<List>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using LoopPtr = std::shared_ptr<Loop>;
using Any = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr, NamespacePtr,
                         LoopPtr, Callable>;

class Value : public Any {
 public:
  using Any::Any;

  template <class Kind>
  [[nodiscard]] const Kind* as() const {
    return std::get_if<Kind>(static_cast<const Any*>(this));
  }
  template <class Kind>
  [[nodiscard]] bool is() const {
    return as<Kind>() != nullptr;
  }
  /// Null for another kind.
  [[nodiscard]] const Text* text() const { return is<TextPtr>() ? as<TextPtr>()->get() : nullptr; }
  [[nodiscard]] List* list() const { return is<ListPtr>() ? as<ListPtr>()->get() : nullptr; }
  [[nodiscard]] const Dict* dict() const { return is<DictPtr>() ? as<DictPtr>()->get() : nullptr; }
};

[[nodiscard]] Value text_value(Text text);
[[nodiscard]] Value text_value(std::string_view utf8);
/// Both functions throw Error(kData) for values nested too deep and for values that may not be held.
[[nodiscard]] Value list_value(Items items, ListKind kind = ListKind::kList);
[[nodiscard]] Value dict_value(Entries entries);
/// Every character of it comes from `origin`.
[[nodiscard]] Value from_json(const nlohmann::ordered_json& json, std::int32_t origin);

/// "a list", for messages.
[[nodiscard]] std::string kind_of(const Value& value);
[[nodiscard]] bool is_true(const Value& value);
/// A number of Python, of which bool is one.
[[nodiscard]] bool is_number(const Value& value);
[[nodiscard]] bool is_integer(const Value& value);
[[nodiscard]] std::int64_t integer_of(const Value& value);
[[nodiscard]] double float_of(const Value& value);
[[nodiscard]] bool are_equal(const Value& a, const Value& b, Budget& budget);
/// a < b. Throws Error(kData) for what Python does not order.
[[nodiscard]] bool is_less(const Value& a, const Value& b, Budget& budget);
/// Null when there is no such key.
[[nodiscard]] const Value* find_entry(const Entries& entries, const Value& key, Budget& budget);
/// Gives `key` the value, behind the other entries if there is no such key.
void set_entry(Entries& entries, const Value& key, const Value& value, Budget& budget);
/// Returns the items of a loop over `value`; a stream is empty afterwards. Throws Error(kData) for a value
/// without items.
[[nodiscard]] ListPtr items_of(const Value& value, Budget& budget);
[[nodiscard]] std::size_t length_of(const Value& value);

/// str() of Python.
[[nodiscard]] Text as_text(const Value& value, Budget& budget);
/// repr(float) of Python.
[[nodiscard]] std::string float_text(double value);

}  // namespace echelon::data::jinja
