#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/template/interpreter.h"

namespace echelon::data::jinja {

Interpreter::Step::Step(Interpreter& interpreter, const Node& node) : interpreter_(interpreter) {
  constexpr int kDeepestCalls = 1000;
  interpreter.tools_.budget.use(8);
  interpreter.line_ = node.line;
  if (interpreter.depth_ >= kDeepestCalls) throw Error(Code::kData, "macros call each other too deeply");
  ++interpreter.depth_;
}

Text Interpreter::run(const Node& root, Variables variables) {
  Text out;
  out_ = &out;
  scope_ = &open_scope(nullptr);
  scope_->names = std::move(variables);
  execute(root);
  return out;
}

Scope& Interpreter::open_scope(Scope* outer) {
  scopes_.push_back({outer});
  return scopes_.back();
}

void Interpreter::close_scope() {
  if (!scopes_.back().kept) scopes_.pop_back();
}

void Interpreter::print(const Text& text) {
  tools_.budget.use(text.size());
  if (text.size() > most_output_ - std::min(most_output_, out_->size()))
    throw Error(Code::kData, "it gives more than ", most_output_, " characters");
  const std::size_t begin = out_->size();
  append(*out_, text);
  for (std::size_t i = begin; generating_ && i < out_->size(); ++i) (*out_)[i].generated = 1;
}

Interpreter::Flow Interpreter::execute(const Node& node) {
  const Step step(*this, node);
  switch (node.form) {
    case Form::kBlock:
      for (const Node& part : node.parts) {
        if (const Flow flow = execute(part); flow != Flow::kOn) return flow;
      }
      return Flow::kOn;
    case Form::kPrint: print(as_text(evaluate(node.parts[0]), tools_.budget)); return Flow::kOn;
    case Form::kIf: return execute_if(node);
    case Form::kFor: return execute_for(node);
    case Form::kSet:
    case Form::kSetBlock: {
      const Node& source = node.parts[0];
      const Value made =
          node.form == Form::kSet ? evaluate(source) : text_value(captured(source, open_scope(scope_)));
      if (node.name.empty()) {
        assign(node.names, made);
      } else {
        assign_attribute(node, made);
      }
      return Flow::kOn;
    }
    case Form::kMacro:
      scope_->kept = true;
      scope_->names[node.name] = Callable{&node, scope_, nullptr, nullptr};
      return Flow::kOn;
    case Form::kGeneration: return generate(node);
    case Form::kBreak: return Flow::kBreak;
    case Form::kContinue: return Flow::kContinue;
    default: throw Error(Code::kData, "an expression stands where a statement belongs");
  }
}

Interpreter::Flow Interpreter::generate(const Node& node) {
  const Text text = captured(node.parts[0], open_scope(scope_));
  const bool outer = std::exchange(generating_, true);
  print(text);
  generating_ = outer;
  return Flow::kOn;
}

Text Interpreter::captured(const Node& node, Scope& scope) {
  Text text;
  Text* const out = std::exchange(out_, &text);
  Scope* const outer = std::exchange(scope_, &scope);
  const bool generating = std::exchange(generating_, false);
  execute(node);
  out_ = out;
  scope_ = outer;
  generating_ = generating;
  close_scope();
  return text;
}

Interpreter::Flow Interpreter::execute_if(const Node& node) {
  std::size_t at = 0;
  for (; at + 1 < node.parts.size(); at += 2) {
    if (is_true(evaluate(node.parts[at]))) return execute(node.parts[at + 1]);
  }
  return at < node.parts.size() ? execute(node.parts[at]) : Flow::kOn;
}

Interpreter::Flow Interpreter::execute_for(const Node& node) {
  ListPtr all = items_of(evaluate(node.parts[0]), tools_.budget);
  Scope* const outer = scope_;
  const bool filtered = node.parts[1].form != Form::kBlock;
  if (filtered) {
    auto some = std::make_shared<List>(List{ListKind::kList, {}, all->depth});
    for (const Value& item : all->items) {
      scope_ = &open_scope(outer);
      assign(node.names, item);
      if (is_true(evaluate(node.parts[1]))) some->items.push_back(item);
      scope_ = outer;
      close_scope();
    }
    all = some;
  }
  Flow flow = Flow::kOn;
  bool otherwise = true;  // as Jinja2 has it: unless a turn came to its end
  for (std::size_t i = 0; i < all->items.size() && flow != Flow::kBreak; ++i) {
    scope_ = &open_scope(outer);
    scope_->names["loop"] = std::make_shared<Loop>(Loop{all, i});
    assign(node.names, all->items[i]);
    flow = execute(node.parts[2]);
    otherwise = otherwise && flow != Flow::kOn;
    scope_ = outer;
    close_scope();
  }
  return otherwise ? execute(node.parts[3]) : Flow::kOn;
}

void Interpreter::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) {
    scope_->names[names[0]] = value;
    return;
  }
  const ListPtr parts = items_of(value, tools_.budget);
  if (parts->items.size() != names.size())
    throw Error(Code::kData, parts->items.size(), " values for ", names.size(), " names");
  for (std::size_t i = 0; i < names.size(); ++i) scope_->names[names[i]] = parts->items[i];
}

void Interpreter::assign_attribute(const Node& node, const Value& value) {
  const Value target = find(node.names[0]);
  const auto* space = target.as<NamespacePtr>();
  if (space == nullptr)
    throw Error(Code::kData, "'", node.names[0], "' is ", kind_of(target),
                ", only a namespace can be changed");
  (void)list_value({value});  // refuses what may not be held
  set_entry((*space)->entries, text_value(node.name), value, tools_.budget);
}

Value Interpreter::find(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    if (const auto known = scope->names.find(name); known != scope->names.end()) return known->second;
  }
  const Builtin* function = find_function(name);
  return function == nullptr ? Value(Undefined{name}) : Value(Callable{nullptr, nullptr, function, nullptr});
}

}  // namespace echelon::data::jinja
