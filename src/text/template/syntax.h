#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/template/value.h"

namespace echelon::data::jinja {

/// The kind of a node of the tree. In brackets: its `parts`, in this order.
enum class Form : std::uint8_t {
  kConstant,    ///< `value`
  kName,        ///< a variable
  kList,        ///< (items)
  kTuple,       ///< (items)
  kDict,        ///< (key, value, key, value...)
  kAttribute,   ///< (object)
  kItem,        ///< (object, key)
  kSlice,       ///< (object, begin, end, step); None where left out
  kCall,        ///< (callee, arguments); some of them kNamed or kSpread
  kNamed,       ///< (value)
  kSpread,      ///< (list), which gives several arguments
  kFilter,      ///< (value, arguments)
  kTest,        ///< (value, arguments)
  kNot,         ///< (value)
  kNegate,      ///< (value)
  kAnd,         ///< (left, right)
  kOr,          ///< (left, right)
  kChoice,      ///< (condition, value[, other])
  kJoin,        ///< (parts)
  kCompare,     ///< (first, second...) with `names` as the signs between them
  kArithmetic,  ///< (left, right); `name` is the sign
  kBlock,       ///< (statements)
  kPrint,       ///< (value)
  kIf,          ///< (condition, block, condition, block...[, block])
  kFor,         ///< (items, condition or an empty block, block, block of `else`); `names` are set
  kSet,         ///< (value); `names` are set, or the attribute `name` of names[0]
  kSetBlock,    ///< (block)
  kMacro,       ///< (defaults of the last names, block); `names` are its parameters
  kGeneration,  ///< (block)
  kBreak,
  kContinue,
};

struct Node {
  Form form;
  int line;
  std::string name{};
  std::vector<Node> parts{};
  std::vector<std::string> names{};
  Value value{};
  int depth = 1;  ///< of the tree below
};

/// Returns the tree of a template, a kBlock. Throws Fault (lexer.h) for text that is no template, is nested
/// too deep or uses unsupported syntax.
[[nodiscard]] Node parse_template(const Text& source);

}  // namespace echelon::data::jinja
