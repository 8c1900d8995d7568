#include <algorithm>
#include <utility>

#include "base/str.h"
#include "text/template/parser.h"

namespace echelon::data::jinja {
namespace {

class TemplateParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Node run() {
    Node root = block({});
    if (!is(TokenKind::kEnd)) fail(str("unexpected ", shown()));
    return root;
  }

 private:
  /// Up to a tag whose name is one of `ends`, which comes next; without `ends` up to the end.
  Node block(const std::vector<std::string_view>& ends) {
    const Deeper deeper(*this);
    const int line = token().line;
    std::vector<Node> parts;
    while (!is(TokenKind::kEnd)) {
      if (is(TokenKind::kData)) {
        Node text{Form::kConstant, token().line};
        text.value = text_value(next().text);
        parts.push_back(make(Form::kPrint, nodes(std::move(text))));
      } else if (skip(TokenKind::kPrint)) {
        parts.push_back(make(Form::kPrint, nodes(tuple())));
        expect(TokenKind::kPrintEnd);
      } else {
        expect(TokenKind::kTag);
        if (std::ranges::any_of(ends, [&](auto end) { return is_word(end); })) break;
        parts.push_back(statement());
        expect(TokenKind::kTagEnd);
      }
    }
    if (!ends.empty() && is(TokenKind::kEnd))
      throw Fault{line, str("what begins here does not end; expected '", ends.back(), "'")};
    Node made = make(Form::kBlock, std::move(parts));
    made.line = line;
    return made;
  }

  Node body(const std::vector<std::string_view>& ends) {
    expect(TokenKind::kTagEnd);
    return block(ends);
  }

  /// A body that cannot end a loop around it.
  Node apart(const std::vector<std::string_view>& ends) {
    const int outer = std::exchange(loops_, 0);
    Node made = body(ends);
    loops_ = outer;
    return made;
  }

  Node statement() {
    const int line = token().line;
    const std::string word = expect(TokenKind::kName);
    Node node = make_statement(word);
    node.line = line;
    return node;
  }

  Node make_statement(const std::string& word) {
    if (word == "if") return condition();
    if (word == "for") return loop();
    if (word == "set") return assignment();
    if (word == "macro") return macro();
    if (word == "generation") {
      Node inside = apart({"endgeneration"});
      next();
      return make(Form::kGeneration, nodes(std::move(inside)));
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) fail(str("'", word, "' outside of a loop"));
      return make(word == "break" ? Form::kBreak : Form::kContinue, {});
    }
    fail(str("the tag '", printable(word),
             "' is not known here; known are if, for, set, macro, generation, break and continue"));
  }

  Node condition() {
    std::vector<Node> parts;
    do {
      parts.push_back(tuple(false));
      parts.push_back(body({"elif", "else", "endif"}));
    } while (skip(TokenKind::kName, "elif"));
    if (skip(TokenKind::kName, "else")) parts.push_back(body({"endif"}));
    expect(TokenKind::kName, "endif");
    return make(Form::kIf, std::move(parts));
  }

  std::vector<std::string> targets() {
    const bool bracket = skip(TokenKind::kOperator, "(");
    std::vector<std::string> names{expect(TokenKind::kName)};
    while (skip(TokenKind::kOperator, ",")) names.push_back(expect(TokenKind::kName));
    if (bracket) expect(TokenKind::kOperator, ")");
    return names;
  }

  Node loop() {
    std::vector<std::string> names = targets();
    expect(TokenKind::kName, "in");
    std::vector<Node> parts = nodes(tuple(false));
    parts.push_back(skip(TokenKind::kName, "if") ? expression() : Node{Form::kBlock, token().line});
    if (is_word("recursive")) fail("recursive loops are not supported");
    ++loops_;
    parts.push_back(body({"else", "endfor"}));
    --loops_;
    parts.push_back(skip(TokenKind::kName, "else") ? body({"endfor"}) : Node{Form::kBlock, token().line});
    expect(TokenKind::kName, "endfor");
    Node node = make(Form::kFor, std::move(parts));
    node.names = std::move(names);
    return node;
  }

  Node assignment() {
    std::vector<std::string> names = targets();
    std::string attribute = skip(TokenKind::kOperator, ".") ? expect(TokenKind::kName) : "";
    std::vector<Node> parts;
    const bool plain = skip(TokenKind::kOperator, "=");
    if (plain) {
      parts.push_back(tuple());
    } else {
      if (!is(TokenKind::kTagEnd)) fail(str("expected '=' or '%}', found ", shown()));
      parts.push_back(apart({"endset"}));
      next();
    }
    Node node = make(plain ? Form::kSet : Form::kSetBlock, std::move(parts), std::move(attribute));
    node.names = std::move(names);
    return node;
  }

  Node macro() {
    std::string name = expect(TokenKind::kName);
    std::vector<std::string> names;
    std::vector<Node> parts;
    expect(TokenKind::kOperator, "(");
    while (!skip(TokenKind::kOperator, ")")) {
      if (!names.empty()) expect(TokenKind::kOperator, ",");
      names.push_back(expect(TokenKind::kName));
      if (skip(TokenKind::kOperator, "=")) {
        parts.push_back(expression());
      } else if (!parts.empty()) {
        fail("a parameter without a default follows one with a default");
      }
    }
    parts.push_back(apart({"endmacro"}));
    next();
    Node node = make(Form::kMacro, std::move(parts), std::move(name));
    node.names = std::move(names);
    return node;
  }

  int loops_ = 0;
};

}  // namespace

Node parse_template(const Text& source) {
  return TemplateParser(tokens_of(source)).run();
}

}  // namespace echelon::data::jinja
