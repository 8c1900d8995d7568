#include "recipe/yaml/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "base/str.h"
#include "recipe/yaml/characters.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxNodes = 20'000;
/// Bounds memory: yaml-cpp reads a line ahead and needs 240 bytes for each of its bytes.
constexpr std::size_t kMaxLineBytes = 16'384;

constexpr const char* kNoAliases =
    "aliases (*name) are not allowed; write the value out, or put a pattern such as \"*norm*\" in quotes";

/// Thrown from an event handler to end yaml-cpp's parser early. The fault has been reported.
struct Stop {};

/// Converts byte offsets to lines and columns. Continues from its previous answer: a parser asks in rising
/// order, so all queries together cost one pass over the text.
class PositionFinder {
 public:
  PositionFinder(std::string_view text, std::size_t source) : text_(text), last_{source, 1, 1} {}

  [[nodiscard]] Position at(std::size_t offset) {
    offset = std::min(offset, text_.size());
    if (offset < last_offset_) {
      last_offset_ = 0;
      last_ = {last_.source, 1, 1};
    }
    while (last_offset_ < offset) {
      const bool line_end = text_[last_offset_] == '\n';
      last_offset_ += character_at(text_, last_offset_).bytes;
      last_ = line_end ? Position{last_.source, last_.line + 1, 1}
                       : Position{last_.source, last_.line, last_.column + 1};
    }
    return last_;
  }

 private:
  std::string_view text_;
  std::size_t last_offset_ = 0;
  Position last_;
};

/// Builds the tree from yaml-cpp's events. The library's own tree is not used: it resolves aliases (300 bytes
/// can expand to 10^9 values) and silently drops duplicate keys, anchors and tags.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, std::size_t source, Faults& faults)
      : text_(text), positions_(text, source), faults_(faults) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    const bool marked = text_.substr(offset(mark)).starts_with("---");
    faults_.add(at(mark), marked ? "a second document starts here; a recipe is one document: remove the '---'"
                                 : "text after the end of the recipe; expected nothing more");
    throw Stop();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { place({Node::Kind::kNull, at(mark)}); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    faults_.add(at(mark), kNoAliases);
    place({Node::Kind::kBroken, at(mark)});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_tag(mark, tag);
    Node node{Node::Kind::kScalar, at(mark), value};
    const char first = offset(mark) < text_.size() ? text_[offset(mark)] : '\0';
    node.quoted = tag == "!" && (first == '"' || first == '\'');
    const std::string problem = scalar_problem(offset(mark), tag == "!" ? first : '\0', value);
    if (!problem.empty()) node.kind = Node::Kind::kBroken;
    place(std::move(node));
    // Held back until the next event: if a missing bracket or colon makes the text run on, only the syntax
    // error that follows is reported.
    held_ = {at(mark), problem};
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    enter(mark, tag, Node::Kind::kList);
  }
  void OnSequenceEnd() override { leave(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    enter(mark, tag, Node::Kind::kMap);
  }
  void OnMapEnd() override { leave(); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    faults_.add(at(mark), "anchors (&name) are not allowed; write the value out where it is needed");
  }

  [[nodiscard]] Position at(const YAML::Mark& mark) { return positions_.at(offset(mark)); }

  /// The innermost open '[' or '{', or null.
  [[nodiscard]] const Node* open_bracket() const {
    for (auto node = open_.rbegin(); node != open_.rend(); ++node) {
      if (node->bracket) return &node->node;
    }
    return nullptr;
  }

  void report_held() {
    if (!held_.second.empty()) faults_.add(held_.first, std::exchange(held_.second, ""));
  }

  void drop_held() { held_.second.clear(); }

  /// The tree so far. Containers that are still open are closed.
  [[nodiscard]] Node take() {
    while (!open_.empty()) leave();
    return std::move(root_);
  }

 private:
  struct Open {
    Node node;
    bool bracket = false;
  };

  // yaml-cpp sets line and column to 0 at the end of the text; its byte offset is always correct.
  [[nodiscard]] std::size_t offset(const YAML::Mark& mark) const {
    return mark.pos < 0 ? text_.size() : static_cast<std::size_t>(mark.pos);
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag == "?" || tag.empty()) return;
    const std::string_view rest = text_.substr(std::min(offset(mark), text_.size()));
    const bool literal =
        !rest.empty() && std::string_view("\"'|>").find(rest.front()) != std::string_view::npos;
    if (tag == "!" && literal) return;
    faults_.add(at(mark), "tags (!name) are not allowed; the key decides the type: remove the tag");
  }

  /// Returns why the scalar at byte `start` is refused, or "". `style`: first character of quoted and block
  /// text, else NUL.
  [[nodiscard]] std::string scalar_problem(std::size_t start, char style, const std::string& value) const {
    if (style == '|' || style == '>')
      return "block text (| or >) is not allowed; write the value on one line";
    if (style == '"' || style == '\'') {
      const std::size_t end = closing_quote(start, style);
      if (end == std::string_view::npos)
        return str("this quote is never closed; expected a second ", style, " at the end of the value");
      const bool one_line = text_.substr(start, end - start).find('\n') == std::string_view::npos;
      return one_line ? "" : "quoted text over several lines is not allowed; write it on one line";
    }
    const std::string_view rest = text_.substr(std::min(start, text_.size()));
    const bool reported = rest.starts_with('&') || rest.starts_with('!');
    if (reported || rest.substr(0, value.size()) == value) return "";
    return str("this value continues over several lines (read as ", shown(value),
               "); write it on one line, and check the indentation of the line below");
  }

  // Needed because yaml-cpp treats the end of the text as the closing quote.
  [[nodiscard]] std::size_t closing_quote(std::size_t start, char quote) const {
    for (std::size_t i = start + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        if (quote == '"' || i + 1 >= text_.size() || text_[i + 1] != quote) return i;
        ++i;
      }
    }
    return std::string_view::npos;
  }

  void enter(const YAML::Mark& mark, const std::string& tag, Node::Kind kind) {
    check_tag(mark, tag);
    if (open_.size() == kMaxDepth) {
      faults_.add(at(mark), str("nested more than ", kMaxDepth, " deep; a recipe has 3 levels at most"));
      throw Stop();
    }
    count(at(mark));
    const char first = offset(mark) < text_.size() ? text_[offset(mark)] : '\0';
    open_.push_back({{kind, at(mark)}, first == (kind == Node::Kind::kMap ? '{' : '[')});
  }

  void leave() {
    report_held();
    Node node = std::move(open_.back().node);
    open_.pop_back();
    // A syntax error came between a key and its value: drop the key.
    if (node.kind == Node::Kind::kMap && node.items.size() % 2 == 1) node.items.pop_back();
    attach(std::move(node));
  }

  void place(Node node) {
    count(node.at);
    attach(std::move(node));
  }

  void attach(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().node.items.push_back(std::move(node));
    }
  }

  void count(const Position& where) {
    report_held();
    if (++nodes_ <= kMaxNodes) return;
    faults_.add(where, str("more than ", kMaxNodes, " values; is this a recipe?"));
    throw Stop();
  }

  std::string_view text_;
  PositionFinder positions_;
  Faults& faults_;
  std::size_t documents_ = 0;
  std::size_t nodes_ = 0;
  std::vector<Open> open_;
  Node root_;
  std::pair<Position, std::string> held_;
};

/// Replaces yaml-cpp's message for a syntax error with one that says what to do.
std::string syntax_hint(std::string_view message) {
  namespace M = YAML::ErrorMsg;
  static const std::array<std::pair<std::string_view, std::string_view>, 14> kHints{{
      {M::MAP_VALUE,
       "a ':' where no key can be; check the indentation, that the line above is 'key: value', and that a "
       "value with ': ' in it is in quotes"},
      {M::END_OF_MAP, "the indentation matches no line above; keys of one section start in the same column"},
      {M::END_OF_SEQ, "the indentation of this list matches no line above"},
      {M::END_OF_MAP_FLOW, "expected ',' or '}'; is a comma or the closing brace missing?"},
      {M::END_OF_SEQ_FLOW, "expected ',' or ']'; is a comma or the closing bracket missing?"},
      {M::FLOW_END, "a closing ']' or '}' without its opening one"},
      {M::UNKNOWN_TOKEN, "no value starts with this character; put the value in quotes"},
      {M::UNKNOWN_ANCHOR, kNoAliases},
      {M::ALIAS_NOT_FOUND, kNoAliases},
      {M::CHAR_IN_ALIAS, kNoAliases},
      {M::BLOCK_ENTRY,
       "a list item '-' where none can be; write the list as [a, b], or '- a' lines below its key"},
      {M::CHAR_IN_SCALAR, "this character cannot stand in a value without quotes; put the value in quotes"},
      {M::EOF_IN_SCALAR, "a quote is never closed"},
      {M::MAP_KEY, "a '?' where no key can be; put the value in quotes"},
  }};
  for (const auto& [theirs, ours] : kHints) {
    if (message.starts_with(theirs)) return std::string(ours);
  }
  return std::string(message);
}

std::string describe(const YAML::ParserException& error, TreeBuilder& tree) {
  namespace M = YAML::ErrorMsg;
  std::string hint = syntax_hint(error.msg);
  if (hint == kNoAliases) return hint;
  const bool unclosed = error.msg == M::END_OF_MAP_FLOW || error.msg == M::END_OF_SEQ_FLOW;
  const Node* open = unclosed ? tree.open_bracket() : nullptr;
  if (open != nullptr && open->at.line < tree.at(error.mark).line) {
    hint += str(" (opened on line ", open->at.line, ", column ", open->at.column, ")");
  }
  return "not valid YAML: " + hint;
}

/// yaml-cpp silently drops unknown directives and applies %TAG. Recipes need neither.
void refuse_directives(std::string_view text, std::size_t source, Faults& faults) {
  const std::size_t at = text.starts_with('%') ? 0 : text.find("\n%");
  if (at == std::string_view::npos) return;
  faults.add(PositionFinder(text, source).at(at == 0 ? 0 : at + 1),
             "directives (%YAML, %TAG) are not allowed; remove the line");
}

bool has_long_line(std::string_view text, std::size_t source, Faults& faults) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end - start > kMaxLineBytes) {
      faults.add(PositionFinder(text, source).at(start),
                 str("a line of more than ", kMaxLineBytes, " bytes; is this a recipe?"));
      return true;
    }
    start = end + 1;
  }
  return false;
}

}  // namespace

Document parse_document(std::string_view text, std::size_t source, Faults& faults) {
  // Before the parser sees the text, since the limit protects the parser.
  if (has_long_line(text, source, faults)) return {.complete = false};
  refuse_directives(text, source, faults);
  TreeBuilder tree(text, source, faults);
  Document document;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(tree)) {
    }
    tree.report_held();
  } catch (const Stop&) {
    document.complete = false;
  } catch (const YAML::ParserException& error) {
    document.complete = false;
    document.syntax_error_at = tree.at(error.mark);
    document.syntax_error = describe(error, tree);
    tree.drop_held();
  }
  document.root = tree.take();
  return document;
}

}  // namespace echelon::recipe
