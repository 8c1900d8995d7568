#include "text/template/interpreter.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace echelon::data::jinja {

Value Interpreter::evaluate(const Node& node) {
  const Step step(*this, node);
  switch (node.form) {
    case Form::kConstant: return node.value;
    case Form::kName: return find(node.name);
    case Form::kAttribute: return attribute_of(tools_, evaluate(node.parts[0]), node.name);
    case Form::kItem: {
      const Value object = evaluate(node.parts[0]);
      return item_of(tools_, object, evaluate(node.parts[1]));
    }
    case Form::kCall: {
      const Value callee = evaluate(node.parts[0]);
      return call(callee, arguments_of(node));
    }
    case Form::kFilter:
    case Form::kTest: {
      const Value self = evaluate(node.parts[0]);
      const Builtin* builtin = node.form == Form::kFilter ? find_filter(node.name) : find_test(node.name);
      const Arguments arguments = arguments_of(node);
      line_ = node.line;
      return call_builtin(tools_, *builtin, self, arguments);
    }
    case Form::kList:
    case Form::kTuple:
    case Form::kDict:
    case Form::kSlice:
    case Form::kJoin: return evaluate_parts(node);
    default: return evaluate_operator(node);
  }
}

Value Interpreter::evaluate_parts(const Node& node) {
  Items items = mapped(node.parts, [this](const Node& part) { return evaluate(part); });
  if (node.form == Form::kSlice) return slice_of(tools_, items[0], items[1], items[2], items[3]);
  if (node.form == Form::kDict) {
    Entries entries;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      set_entry(entries, items[i], items[i + 1], tools_.budget);
    return dict_value(std::move(entries));
  }
  if (node.form != Form::kJoin)
    return list_value(std::move(items), node.form == Form::kList ? ListKind::kList : ListKind::kTuple);
  Text text;
  for (const Value& item : items) append(text, as_text(item, tools_.budget));
  tools_.budget.use(text.size());
  return text_value(std::move(text));
}

Value Interpreter::evaluate_operator(const Node& node) {
  const Value first = evaluate(node.parts[0]);
  switch (node.form) {
    case Form::kNot: return !is_true(first);
    case Form::kNegate: return calculate(tools_, "-", std::int64_t{0}, first);
    case Form::kAnd: return is_true(first) ? evaluate(node.parts[1]) : first;
    case Form::kOr: return is_true(first) ? first : evaluate(node.parts[1]);
    case Form::kChoice:
      if (is_true(first)) return evaluate(node.parts[1]);
      return node.parts.size() > 2 ? evaluate(node.parts[2]) : Value(Undefined{"else"});
    case Form::kCompare: {
      Value left = first;
      for (std::size_t i = 0; i < node.names.size(); ++i) {
        Value right = evaluate(node.parts[i + 1]);
        if (!compare(tools_, node.names[i], left, right)) return false;
        left = std::move(right);
      }
      return true;
    }
    case Form::kArithmetic: {
      const Value second = evaluate(node.parts[1]);
      line_ = node.line;
      return calculate(tools_, node.name, first, second);
    }
    default: throw Error(Code::kData, "a statement stands where an expression belongs");
  }
}

Arguments Interpreter::arguments_of(const Node& node) {
  Arguments arguments;
  for (std::size_t i = 1; i < node.parts.size(); ++i) {
    const Node& part = node.parts[i];
    if (part.form == Form::kNamed) {
      arguments.named.emplace_back(part.name, evaluate(part.parts[0]));
    } else if (part.form == Form::kSpread) {
      const ListPtr list = items_of(evaluate(part.parts[0]), tools_.budget);
      arguments.places.insert(arguments.places.end(), list->items.begin(), list->items.end());
      tools_.budget.use(4 * list->items.size());
    } else {
      arguments.places.push_back(evaluate(part));
    }
  }
  line_ = node.line;
  return arguments;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  const auto* callable = callee.as<Callable>();
  if (callable == nullptr) throw Error(Code::kData, kind_of(callee), " cannot be called");
  if (callable->macro != nullptr) return call_macro(*callable, arguments);
  return call_builtin(tools_, *callable->builtin, callable->self ? *callable->self : Value(), arguments);
}

Value Interpreter::call_macro(const Callable& macro, const Arguments& arguments) {
  const Node& node = *macro.macro;
  const auto fail = [&](const std::string& text) {
    throw Error(Code::kData, "macro '", node.name, "' ", text);
  };
  if (arguments.places.size() > node.names.size())
    fail(str("takes ", node.names.size(), " arguments, found ", arguments.places.size()));
  Scope& scope = open_scope(macro.scope);
  for (std::size_t i = 0; i < arguments.places.size(); ++i)
    scope.names.emplace(node.names[i], arguments.places[i]);
  for (const auto& [name, value] : arguments.named) {
    if (std::ranges::find(node.names, name) == node.names.end()) fail(str("has no argument '", name, "'"));
    scope.names.emplace(name, value);
  }
  Scope* const caller = std::exchange(scope_, &scope);
  const std::size_t first_default = node.names.size() - (node.parts.size() - 1);
  for (std::size_t i = arguments.places.size(); i < node.names.size(); ++i) {
    if (scope.names.contains(node.names[i])) continue;
    Value value =
        i >= first_default ? evaluate(node.parts[i - first_default]) : Value(Undefined{node.names[i]});
    scope.names.emplace(node.names[i], std::move(value));
  }
  scope_ = caller;
  return text_value(captured(node.parts.back(), scope));
}

}  // namespace echelon::data::jinja
