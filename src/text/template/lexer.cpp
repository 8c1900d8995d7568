#include "text/template/lexer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/str.h"

namespace echelon::data::jinja {
namespace {

bool is_digit(std::uint32_t c) {
  return c >= '0' && c <= '9';
}
bool is_word(std::uint32_t c) {
  return is_digit(c) || (c | 32U) - 'a' < 26U || c == '_';
}

/// Line ends become \n, and one at the end goes.
Text normal_lines(const Text& source) {
  Text text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool pair = source[i].code == '\r' && i + 1 < source.size() && source[i + 1].code == '\n';
    if (!pair) text.push_back(source[i].code == '\r' ? make_char('\n') : source[i]);
  }
  if (!text.empty() && text.back().code == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(const Text& source) : source_(normal_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t begin = next_begin();
      const std::uint32_t kind = code(begin + 1);
      const std::uint32_t sign = code(begin + 2);
      data(begin, kind, sign);
      advance(begin + 2 + (begin < source_.size() && (sign == '-' || sign == '+') ? 1 : 0));
      if (begin >= source_.size()) break;
      if (kind == '#') {
        comment();
      } else {
        add(kind == '{' ? TokenKind::kPrint : TokenKind::kTag, "");
        inside(kind == '{');
      }
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::uint32_t code(std::size_t at) const {
    return at < source_.size() ? source_[at].code : 0;
  }
  [[nodiscard]] bool starts(std::string_view ascii, std::size_t at) const {
    for (std::size_t i = 0; i < ascii.size(); ++i) {
      if (code(at + i) != static_cast<unsigned char>(ascii[i])) return false;
    }
    return true;
  }
  [[noreturn]] void fail(const std::string& text) const { throw Fault{line_, text}; }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void advance(std::size_t to) {
    for (to = std::min(to, source_.size()); at_ < to; ++at_) line_ += source_[at_].code == '\n' ? 1 : 0;
  }
  void skip_space() {
    std::size_t to = at_;
    while (is_space(code(to))) ++to;
    advance(to);
  }

  [[nodiscard]] std::size_t next_begin() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      if (starts("{{", i) || starts("{%", i) || starts("{#", i)) return i;
    }
    return source_.size();
  }

  void data(std::size_t end, std::uint32_t kind, std::uint32_t sign) {
    Text text = slice(source_, at_, end);
    const bool tag = end < source_.size();
    if (tag && sign == '-') {
      text = strip(text, nullptr, false, true);
    } else if (tag && sign != '+' && kind != '{') {
      std::size_t line = text.size();
      while (line > 0 && text[line - 1].code != '\n') --line;
      const bool blank = strip(slice(text, line, text.size()), nullptr, true, true).empty();
      if (blank && (line > 0 || line_starts_)) text.resize(line);
    }
    if (!text.empty()) add(TokenKind::kData, to_utf8(text));
  }

  /// Passes over the end of a tag or a comment and the white space that goes with it.
  void close(bool strips, bool trims, std::size_t end) {
    advance(end);
    if (strips) skip_space();
    if (trims && code(at_) == '\n') advance(at_ + 1);
    line_starts_ = code(at_ - 1) == '\n';
  }

  void comment() {
    std::size_t end = at_;
    while (end < source_.size() && !starts("#}", end)) ++end;
    if (end == source_.size()) fail("this comment does not end; expected '#}'");
    const std::uint32_t sign = end > at_ ? code(end - 1) : 0;
    close(sign == '-', sign != '-' && sign != '+', end + 2);
  }

  bool ends(bool print) {
    const std::string_view end = print ? "}}" : "%}";
    const bool minus = code(at_) == '-';
    const bool plus = !print && code(at_) == '+';
    if (!open_.empty() || !starts(end, at_ + (minus || plus ? 1 : 0))) return false;
    add(print ? TokenKind::kPrintEnd : TokenKind::kTagEnd, "");
    close(minus, !print && !minus && !plus, at_ + 2 + (minus || plus ? 1 : 0));
    return true;
  }

  void inside(bool print) {
    const int begun = line_;
    for (skip_space(); !ends(print); skip_space()) {
      const std::uint32_t c = code(at_);
      if (at_ >= source_.size()) {
        throw Fault{begun, str("what begins with '", print ? "{{" : "{%", "' does not end; expected '",
                               print ? "}}'" : "%}'")};
      }
      if (c == '\'' || c == '"') {
        quoted(c);
      } else if (is_digit(c)) {
        number();
      } else if (is_word(c)) {
        std::size_t end = at_;
        while (is_word(code(end))) ++end;
        take(TokenKind::kName, end);
      } else {
        sign();
      }
    }
  }

  void take(TokenKind kind, std::size_t end) {
    add(kind, to_utf8(slice(source_, at_, end)));
    advance(end);
  }

  void number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (is_digit(code(end))) ++end;
    };
    digits();
    TokenKind kind = TokenKind::kInteger;
    const bool member = at_ > 0 && code(at_ - 1) == '.';  // list.0.1
    if (!member && code(end) == '.' && is_digit(code(end + 1))) {
      kind = TokenKind::kFloat;
      ++end;
      digits();
    }
    if (is_word(code(end))) fail("numbers other than plain decimal ones are not supported");
    take(kind, end);
  }

  void sign() {
    constexpr std::array<std::string_view, 6> kLong{"//", "==", "!=", ">=", "<=", "**"};
    for (const std::string_view word : kLong) {
      if (starts(word, at_)) return take(TokenKind::kOperator, at_ + 2);
    }
    const std::uint32_t c = code(at_);
    if (c > 126 ||
        std::string_view("+-/*%~[](){}<>=.:|,").find(static_cast<char>(c)) == std::string_view::npos)
      fail(str("unexpected character '", printable(to_utf8({source_[at_]})), "'"));
    if (c == '(' || c == '[' || c == '{') open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != static_cast<char>(c))
        fail(str("unexpected '", static_cast<char>(c), "'"));
      open_.pop_back();
    }
    take(TokenKind::kOperator, at_ + 1);
  }

  void quoted(std::uint32_t quote) {
    std::size_t at = at_ + 1;
    std::string text;
    while (at < source_.size() && code(at) != quote) {
      if (code(at) == '\\') {
        at = escape(at + 1, text);
      } else {
        append_utf8(code(at++), text);
      }
    }
    if (at >= source_.size()) fail("this text does not end; expected a closing quote");
    add(TokenKind::kText, std::move(text));
    advance(at + 1);
  }

  /// Python's escapes; `at` is behind the backslash.
  std::size_t escape(std::size_t at, std::string& out) {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const std::uint32_t c = code(at);
    if (c == '\n') return at + 1;
    if (const auto found = kNames.find(static_cast<char>(c)); c < 127 && found != std::string_view::npos) {
      out += kValues[found];
      return at + 1;
    }
    if (c == 'x' || c == 'u' || c == 'U')
      return escaped_number(at + 1, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, out);
    if (c >= '0' && c <= '7') {
      std::size_t size = 1;
      while (size < 3 && code(at + size) >= '0' && code(at + size) <= '7') ++size;
      return escaped_number(at, size, 8, out);
    }
    if (c == 'N') fail("the escape \\N of a text is not supported");
    out += '\\';
    return at;
  }

  std::size_t escaped_number(std::size_t at, std::size_t size, std::uint32_t base, std::string& out) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint32_t c = code(at + i);
      const std::uint32_t digit = is_digit(c) ? c - '0' : (c | 32U) - 'a' < 6U ? (c | 32U) - 'a' + 10 : 16;
      if (digit >= base) fail("an escape of a text has too few digits");
      value = value * base + digit;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) fail("an escape of a text is no character");
    append_utf8(static_cast<std::uint32_t>(value), out);
    return at + size;
  }

  Text source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::string open_;  // the brackets that must close
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(const Text& source) {
  return Lexer(source).run();
}

}  // namespace echelon::data::jinja
