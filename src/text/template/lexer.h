#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/template/chars.h"

namespace echelon::data::jinja {

enum class TokenKind : std::uint8_t {
  kData,
  kPrint,
  kPrintEnd,
  kTag,
  kTagEnd,
  kName,
  kText,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  ///< UTF-8; of kText with its escapes resolved
};

/// A fault at a line of a template; what() has no line.
struct Fault {
  int line;
  std::string text;
};

/// The tokens of a template, the last one kEnd, as Jinja2 with trim_blocks and lstrip_blocks makes them:
/// comments and the white space that tags remove are left out. Throws Fault.
[[nodiscard]] std::vector<Token> tokens_of(const Text& source);

}  // namespace echelon::data::jinja
