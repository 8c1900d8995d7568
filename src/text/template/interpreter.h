#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/not_copied.h"
#include "text/template/builtins.h"
#include "text/template/syntax.h"

namespace echelon::data::jinja {

using Variables = std::map<std::string, Value>;

/// The variables of a template, of one turn of a loop or of one call of a macro.
struct Scope {
  Scope* outer = nullptr;
  Variables names{};
  bool kept = false;  ///< a macro was made in it
};

/// Renders one conversation.
class Interpreter {
 public:
  Interpreter(Tools tools, std::size_t most_output) : tools_(tools), most_output_(most_output) {}

  /// Throws Error(kData); line() then tells where.
  [[nodiscard]] Text run(const Node& root, Variables variables);
  [[nodiscard]] int line() const { return line_; }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  /// Counts what has begun and not ended, and takes from the budget.
  class Step : NotCopied {
   public:
    Step(Interpreter& interpreter, const Node& node);
    ~Step() { --interpreter_.depth_; }

   private:
    Interpreter& interpreter_;
  };

  Flow execute(const Node& node);
  Flow execute_if(const Node& node);
  Flow execute_for(const Node& node);
  void assign(const std::vector<std::string>& names, const Value& value);
  void assign_attribute(const Node& node, const Value& value);
  void print(const Text& text);
  /// Returns the text that `node` prints, in a scope of its own.
  Text captured(const Node& node, Scope& scope);
  Flow generate(const Node& node);

  Value evaluate(const Node& node);
  Value evaluate_parts(const Node& node);
  Value evaluate_operator(const Node& node);
  Arguments arguments_of(const Node& node);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  Value find(const std::string& name) const;

  Scope& open_scope(Scope* outer);
  void close_scope();

  Tools tools_;
  std::size_t most_output_;
  std::deque<Scope> scopes_;  // those that are kept stay until the end
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  bool generating_ = false;
  int line_ = 1;
  int depth_ = 0;
};

}  // namespace echelon::data::jinja
