#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/not_copied.h"
#include "text/template/lexer.h"
#include "text/template/syntax.h"

namespace echelon::data::jinja {

/// The parts of a node.
template <class... Nodes>
[[nodiscard]] std::vector<Node> nodes(Nodes&&... list) {
  std::vector<Node> made;
  made.reserve(sizeof...(list));
  (made.push_back(std::forward<Nodes>(list)), ...);
  return made;
}

/// Reads expressions, in Jinja2's order of precedence. `parse_template()` builds statements on it.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  [[nodiscard]] const Token& token(std::size_t ahead = 0) const;
  [[nodiscard]] bool is(TokenKind kind, std::string_view text = "", std::size_t ahead = 0) const;
  [[nodiscard]] bool is_sign(std::string_view text) const { return is(TokenKind::kOperator, text); }
  [[nodiscard]] bool is_word(std::string_view text) const { return is(TokenKind::kName, text); }
  Token next();
  bool skip(TokenKind kind, std::string_view text = "");
  std::string expect(TokenKind kind, std::string_view text = "");
  [[noreturn]] void fail(const std::string& text) const;
  /// "'x'", of the token that comes.
  [[nodiscard]] std::string shown() const;
  /// Throws Fault when the tree becomes too deep.
  [[nodiscard]] Node make(Form form, std::vector<Node> parts, std::string name = "") const;

  /// `a, b` is a tuple; `choice`: with `x if y`.
  Node tuple(bool choice = true);
  Node expression();

  /// Counts what has begun and not ended.
  class Deeper : NotCopied {
   public:
    explicit Deeper(ExpressionParser& parser);
    ~Deeper() { --parser_.open_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  Node disjunction();
  Node conjunction();
  Node negation();
  Node comparison();
  Node sum();
  Node join();
  Node product();
  Node unary(bool filters = true);
  Node primary();
  Node postfix(Node node);
  Node filters_of(Node node);
  Node test_of(Node node);
  Node subscript(Node object);
  Node slice_part();
  void arguments(std::vector<Node>& parts);
  Node bracketed();
  Node collection(Form form);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int open_ = 0;
};

}  // namespace echelon::data::jinja
