#include "text/template/parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/str.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

constexpr int kDeepestTree = 100;

std::string describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::kData:
    case TokenKind::kEnd: return "the end";
    case TokenKind::kPrint: return "'{{'";
    case TokenKind::kPrintEnd: return "'}}'";
    case TokenKind::kTag: return "'{%'";
    case TokenKind::kTagEnd: return "'%}'";
    case TokenKind::kName: return "a name";
    case TokenKind::kText: return "a text";
    case TokenKind::kInteger:
    case TokenKind::kFloat: return "a number";
    case TokenKind::kOperator: break;
  }
  return "a sign";
}

Node none_node(int line) {
  return {Form::kConstant, line, "", {}, {}, None()};
}

}  // namespace

ExpressionParser::Deeper::Deeper(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.open_ > kDeepestTree) {
    --parser_.open_;
    parser.fail(str("nested deeper than ", kDeepestTree, " levels"));
  }
}

const Token& ExpressionParser::token(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool ExpressionParser::is(TokenKind kind, std::string_view text, std::size_t ahead) const {
  return token(ahead).kind == kind && (text.empty() || token(ahead).text == text);
}

Token ExpressionParser::next() {
  Token token = this->token();
  ++at_;
  return token;
}

bool ExpressionParser::skip(TokenKind kind, std::string_view text) {
  const bool found = is(kind, text);
  if (found) ++at_;
  return found;
}

std::string ExpressionParser::expect(TokenKind kind, std::string_view text) {
  if (!is(kind, text))
    fail(str("expected ", text.empty() ? describe(kind) : str("'", text, "'"), ", found ", shown()));
  return next().text;
}

void ExpressionParser::fail(const std::string& text) const {
  throw Fault{token().line, text};
}

std::string ExpressionParser::shown() const {
  const bool plain = token().text.empty() || token().kind == TokenKind::kData;
  return plain ? describe(token().kind) : str("'", printable(token().text), "'");
}

Node ExpressionParser::make(Form form, std::vector<Node> parts, std::string name) const {
  int depth = 0;
  for (const Node& part : parts) depth = std::max(depth, part.depth);
  if (depth >= kDeepestTree) fail(str("nested deeper than ", kDeepestTree, " levels"));
  const int line = parts.empty() ? token().line : parts.front().line;
  return {form, line, std::move(name), std::move(parts), {}, {}, depth + 1};
}

Node ExpressionParser::tuple(bool choice) {
  const auto item = [&] { return choice ? expression() : disjunction(); };
  std::vector<Node> items = nodes(item());
  if (!is_sign(",")) return std::move(items.front());
  while (skip(TokenKind::kOperator, ",")) {
    if (is(TokenKind::kPrintEnd) || is(TokenKind::kTagEnd) || is_sign(")")) break;
    items.push_back(item());
  }
  return make(Form::kTuple, std::move(items));
}

Node ExpressionParser::expression() {
  const Deeper deeper(*this);
  Node node = disjunction();
  while (skip(TokenKind::kName, "if")) {
    std::vector<Node> parts = nodes(disjunction(), std::move(node));
    const bool other = skip(TokenKind::kName, "else");
    if (other) parts.push_back(expression());
    node = make(Form::kChoice, std::move(parts));
  }
  return node;
}

Node ExpressionParser::disjunction() {
  Node node = conjunction();
  while (skip(TokenKind::kName, "or")) node = make(Form::kOr, nodes(std::move(node), conjunction()));
  return node;
}

Node ExpressionParser::conjunction() {
  Node node = negation();
  while (skip(TokenKind::kName, "and")) node = make(Form::kAnd, nodes(std::move(node), negation()));
  return node;
}

Node ExpressionParser::negation() {
  if (!skip(TokenKind::kName, "not")) return comparison();
  const Deeper deeper(*this);
  return make(Form::kNot, nodes(negation()));
}

Node ExpressionParser::comparison() {
  std::vector<Node> parts = nodes(sum());
  std::vector<std::string> signs;
  while (true) {
    if (is_word("in") || is_sign("==") || is_sign("!=") || is_sign("<") || is_sign("<=") || is_sign(">") ||
        is_sign(">=")) {
      signs.push_back(next().text);
    } else if (is_word("not") && is(TokenKind::kName, "in", 1)) {
      next();
      next();
      signs.emplace_back("not in");
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (signs.empty()) return std::move(parts.front());
  Node node = make(Form::kCompare, std::move(parts));
  node.names = std::move(signs);
  return node;
}

Node ExpressionParser::sum() {
  Node node = join();
  while (is_sign("+") || is_sign("-")) {
    const std::string sign = next().text;
    node = make(Form::kArithmetic, nodes(std::move(node), join()), sign);
    const auto is_safe = [](const Node& part) { return part.form == Form::kFilter && part.name == "safe"; };
    if (std::ranges::any_of(node.parts, is_safe))
      fail("'safe' beside '+' escapes HTML in what is added, which is not supported; use '~'");
  }
  return node;
}

Node ExpressionParser::join() {
  std::vector<Node> parts = nodes(product());
  while (skip(TokenKind::kOperator, "~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts.front()) : make(Form::kJoin, std::move(parts));
}

Node ExpressionParser::product() {
  Node node = unary();
  while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
    const std::string sign = next().text;
    node = make(Form::kArithmetic, nodes(std::move(node), unary()), sign);
  }
  if (is_sign("**")) fail("powers are not supported");
  return node;
}

Node ExpressionParser::unary(bool filters) {
  const Deeper deeper(*this);
  Node node = is_sign("-") ? (next(), make(Form::kNegate, nodes(unary(false)))) : primary();
  node = postfix(std::move(node));
  return filters ? filters_of(std::move(node)) : std::move(node);
}

Node ExpressionParser::primary() {
  const int line = token().line;
  if (is(TokenKind::kOperator)) {
    if (is_sign("(")) return bracketed();
    if (is_sign("[")) return collection(Form::kList);
    if (is_sign("{")) return collection(Form::kDict);
  }
  const Token word = next();
  Node node{Form::kConstant, line, word.text};
  if (word.kind == TokenKind::kText) {
    Text text = to_text(word.text);
    while (is(TokenKind::kText)) append(text, to_text(next().text));
    node.value = text_value(std::move(text));
  } else if (word.kind == TokenKind::kInteger) {
    std::int64_t number = 0;
    const auto end = word.text.data() + word.text.size();
    if (std::from_chars(word.text.data(), end, number).ec != std::errc()) fail("a number is too large");
    node.value = number;
  } else if (word.kind == TokenKind::kFloat) {
    node.value = std::strtod(word.text.c_str(), nullptr);
  } else if (word.kind != TokenKind::kName) {
    --at_;
    fail(str("expected a value, found ", shown()));
  } else if (word.text == "true" || word.text == "True" || word.text == "false" || word.text == "False") {
    node.value = word.text[0] == 't' || word.text[0] == 'T';
  } else if (word.text == "none" || word.text == "None") {
    node.value = None();
  } else {
    node.form = Form::kName;
  }
  return node;
}

Node ExpressionParser::bracketed() {
  const int line = token().line;
  next();
  if (skip(TokenKind::kOperator, ")")) return {Form::kTuple, line};
  Node node = tuple();
  expect(TokenKind::kOperator, ")");
  return node;
}

Node ExpressionParser::collection(Form form) {
  const bool pairs = form == Form::kDict;
  const std::string_view close = pairs ? "}" : "]";
  next();
  std::vector<Node> items;
  while (!is_sign(close)) {
    if (!items.empty()) expect(TokenKind::kOperator, ",");
    if (is_sign(close)) break;
    items.push_back(expression());
    if (!pairs) continue;
    expect(TokenKind::kOperator, ":");
    items.push_back(expression());
  }
  expect(TokenKind::kOperator, close);
  return make(form, std::move(items));
}

Node ExpressionParser::postfix(Node node) {
  while (true) {
    if (skip(TokenKind::kOperator, ".")) {
      if (is(TokenKind::kInteger)) {
        Node key = primary();
        node = make(Form::kItem, nodes(std::move(node), std::move(key)));
      } else {
        std::string name = expect(TokenKind::kName);
        node = make(Form::kAttribute, nodes(std::move(node)), std::move(name));
      }
    } else if (is_sign("[")) {
      node = subscript(std::move(node));
    } else if (is_sign("(")) {
      std::vector<Node> parts = nodes(std::move(node));
      arguments(parts);
      node = make(Form::kCall, std::move(parts));
    } else {
      return node;
    }
  }
}

Node ExpressionParser::slice_part() {
  const bool absent = is_sign(":") || is_sign("]");
  return absent ? none_node(token().line) : expression();
}

Node ExpressionParser::subscript(Node object) {
  next();
  std::vector<Node> parts = nodes(std::move(object), slice_part());
  const bool is_slice = is_sign(":");
  if (is_slice) {
    for (int part = 0; part < 2; ++part)
      parts.push_back(skip(TokenKind::kOperator, ":") ? slice_part() : none_node(token().line));
  }
  expect(TokenKind::kOperator, "]");
  return make(is_slice ? Form::kSlice : Form::kItem, std::move(parts));
}

void ExpressionParser::arguments(std::vector<Node>& parts) {
  expect(TokenKind::kOperator, "(");
  for (bool first = true; !is_sign(")"); first = false) {
    if (!first) expect(TokenKind::kOperator, ",");
    if (is_sign(")")) break;
    if (skip(TokenKind::kOperator, "*")) {
      parts.push_back(make(Form::kSpread, nodes(expression())));
      continue;
    }
    const bool named = is(TokenKind::kName) && is(TokenKind::kOperator, "=", 1);
    const std::string name = named ? next().text : "";
    if (named) next();
    Node value = expression();
    if (!named && parts.back().form == Form::kNamed)
      fail("an argument without a name follows one with a name");
    parts.push_back(named ? make(Form::kNamed, nodes(std::move(value)), name) : std::move(value));
  }
  next();
}

Node ExpressionParser::filters_of(Node node) {
  while (true) {
    if (skip(TokenKind::kOperator, "|")) {
      const std::string name = expect(TokenKind::kName);
      if (find_filter(name) == nullptr) fail(str("no filter '", name, "' is known"));
      std::vector<Node> parts = nodes(std::move(node));
      if (is_sign("(")) arguments(parts);
      node = make(Form::kFilter, std::move(parts), name);
    } else if (is_word("is")) {
      node = test_of(std::move(node));
    } else if (is_sign("(")) {
      std::vector<Node> parts = nodes(std::move(node));
      arguments(parts);
      node = make(Form::kCall, std::move(parts));
    } else {
      return node;
    }
  }
}

Node ExpressionParser::test_of(Node node) {
  next();
  const bool negated = skip(TokenKind::kName, "not");
  const std::string name = expect(TokenKind::kName);
  if (find_test(name) == nullptr) fail(str("no test '", name, "' is known"));
  std::vector<Node> parts = nodes(std::move(node));
  const bool word = is(TokenKind::kName) && !is_word("else") && !is_word("or") && !is_word("and");
  const bool value = is(TokenKind::kText) || is(TokenKind::kInteger) || is(TokenKind::kFloat) ||
                     is_sign("[") || is_sign("{");
  if (is_sign("(")) {
    arguments(parts);
  } else if (word || value) {
    if (is_word("is")) fail("tests cannot be chained by 'is'");
    Node argument = primary();
    parts.push_back(postfix(std::move(argument)));
  }
  Node test = make(Form::kTest, std::move(parts), name);
  return negated ? make(Form::kNot, nodes(std::move(test))) : test;
}

}  // namespace echelon::data::jinja
