#include "text/bpe/pattern_syntax.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "text/bpe/unicode_additions.h"

namespace echelon::data {
namespace {

// Unicode's White_Space, unchanged since version 6.3, and its complement.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// The characters of a general category ("L", "Nd", ...), to stand inside of [].
std::string category_set(std::string_view category) {
  std::string set = str("\\p{", category, "}");
  for (const AddedCharacters& added : unicode_additions()) {
    if (!added.category.starts_with(category)) continue;
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "\\x{%x}-\\x{%x}", added.first, added.last);
    set += text.data();
  }
  return set;
}

class Rewriter {
 public:
  Rewriter(std::string_view pattern, std::string_view field) : in_(pattern), field_(field) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    throw Error(Code::kData, field_, " holds the pattern '", printable(in_, 200), "' with '",
                printable(construct), "', which is not supported");
  }

  void step() {
    const std::string_view rest = in_.substr(at_);
    if (rest[0] == '\\') return escape();
    if (set_) return in_set(rest);
    if (rest[0] == '[') return open_set(rest);
    if (rest.starts_with("(?")) return group(rest);
    if (rest.starts_with("(*") || rest.starts_with("{,") || rest.starts_with("}+")) refuse(rest.substr(0, 2));
    take(1);
  }

  void take(std::size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void open_set(std::string_view rest) {
    set_ = true;
    take(rest.starts_with("[^") ? 2 : 1);
    // After [ or [^ Ruby warns of an empty set, and PCRE2 takes ] as a character.
    if (at_ < in_.size() && in_[at_] == ']') refuse("[]");
  }

  void in_set(std::string_view rest) {
    if (rest[0] == '[') refuse(rest.substr(0, 2));
    if (rest.starts_with("&&")) refuse("&&");
    if (rest[0] == ']') set_ = false;
    take(1);
  }

  void group(std::string_view rest) {
    static constexpr std::array<std::string_view, 8> kKnown{"(?:",  "(?=",  "(?!",  "(?>",
                                                            "(?<=", "(?<!", "(?i)", "(?i:"};
    for (const std::string_view known : kKnown) {
      if (rest.starts_with(known)) return take(known.size());
    }
    refuse(rest.substr(0, 4));
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("\\");
    const char kind = in_[at_ + 1];
    const auto put = [&](std::string_view members, std::string_view outside) {
      out_ += set_ ? std::string(members) : std::string(outside);
      at_ += 2;
    };
    switch (kind) {
      case 's': return put(kSpaces, str("[", kSpaces, "]"));
      case 'S': return put(kNoSpaces, str("[^", kSpaces, "]"));
      case 'd': return put(category_set("Nd"), str("[", category_set("Nd"), "]"));
      case 'D':
        if (set_) refuse("\\D in a set");
        return put("", str("[^", category_set("Nd"), "]"));
      case 'h': return put("0-9a-fA-F", "[0-9a-fA-F]");
      case 'v': return put("\\x0b", "\\x0b");
      case 'p':
      case 'P': return category(kind == 'P');
      case 'x':
      case 'u': return code_point(kind);
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e': return take(2);
      case 'A':
      case 'z':
      case 'Z':
        if (set_) refuse(in_.substr(at_, 2));
        return take(2);
      default: break;
    }
    const bool letter_or_digit =
        (kind >= '0' && kind <= '9') || (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z');
    if (letter_or_digit || static_cast<unsigned char>(kind) >= 0x80) refuse(in_.substr(at_, 2));
    take(2);
  }

  /// \p{L}, \p{^L}, \P{L}: general categories only.
  void category(bool negative) {
    const std::size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string_view::npos)
      refuse(in_.substr(at_, 3));
    const std::string_view whole = in_.substr(at_, end + 1 - at_);
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negative = !negative;
      name.remove_prefix(1);
    }
    static constexpr std::string_view kSubcategories =
        " Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp ";
    static constexpr std::string_view kCategories = "LMNPSZ";  // not C, which holds the unassigned ones
    const bool major = name.size() == 1 && kCategories.find(name[0]) != std::string_view::npos;
    const bool sub = name.size() == 2 && kSubcategories.find(str(" ", name, " ")) != std::string_view::npos;
    if (!(major || sub) || (negative && set_)) refuse(whole);
    const std::string members = category_set(name);
    out_ += set_ ? members : str(negative ? "[^" : "[", members, "]");
    at_ = end + 1;
  }

  /// \x41, \x{1F600}, \u00e9
  void code_point(char kind) {
    std::size_t begin = at_ + 2;
    std::size_t most = kind == 'u' ? 4 : 2;
    const bool braces = kind == 'x' && begin < in_.size() && in_[begin] == '{';
    if (braces) {
      ++begin;
      most = 6;
    }
    std::size_t end = begin;
    while (end < in_.size() && end - begin < most && is_hex(in_[end])) ++end;
    const std::string_view digits = in_.substr(begin, end - begin);
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    // Below 0x80 a \x byte is a character; above, Oniguruma takes it as a byte of UTF-8.
    const bool byte = kind == 'x' && !braces && !digits.empty() && (digits.size() == 2 && digits[0] >= '8');
    if (digits.empty() || !closed || byte || (kind == 'u' && digits.size() != 4)) refuse(in_.substr(at_, 3));
    out_ += str("\\x{", digits, "}");
    at_ = end + (braces ? 1 : 0);
  }

  std::string_view in_;
  std::string_view field_;
  std::string out_;
  std::size_t at_ = 0;
  bool set_ = false;
};

}  // namespace

std::string pcre2_syntax(std::string_view pattern, std::string_view field) {
  return Rewriter(pattern, field).run();
}

}  // namespace echelon::data
