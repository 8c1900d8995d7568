#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/str.h"
#include "text/template/value.h"

namespace echelon::data::jinja {
namespace {

void append_quoted(Text& out, const Text& text) {
  const auto has = [&](char c) { return find(text, to_text(std::string_view(&c, 1))) < text.size(); };
  const char quote = has('\'') && !has('"') ? '"' : '\'';
  append(out, std::string_view(&quote, 1));
  for (const Char c : text) {
    std::string escape;
    if (c.code == '\n') escape = "\\n";
    if (c.code == '\r') escape = "\\r";
    if (c.code == '\t') escape = "\\t";
    if (c.code == '\\' || c.code == static_cast<unsigned char>(quote))
      escape = {'\\', static_cast<char>(c.code)};
    if (escape.empty() && !is_printable(c.code)) {
      const std::size_t digits = c.code < 0x100 ? 2 : c.code < 0x10000 ? 4 : 8;
      escape = str(digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U", hex_digits(c.code, digits));
    }
    if (escape.empty()) {
      out.push_back(c);
    } else {
      append(out, to_text(escape, c.origin));
    }
  }
  append(out, std::string_view(&quote, 1));
}

void append_repr(Text& out, const Value& value, Budget& budget);

void append_items(Text& out, const Items& items, Budget& budget) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) append(out, ", ");
    append_repr(out, items[i], budget);
  }
}

void append_repr(Text& out, const Value& value, Budget& budget) {
  budget.use(4);
  if (const Text* text = value.text()) {
    budget.use(10 * text->size());
    append_quoted(out, *text);
  } else if (const List* list = value.list(); list != nullptr && list->kind <= ListKind::kTuple) {
    const bool tuple = list->kind == ListKind::kTuple;
    append(out, tuple ? "(" : "[");
    append_items(out, list->items, budget);
    append(out, tuple ? (list->items.size() == 1 ? ",)" : ")") : "]");
  } else if (const Dict* dict = value.dict()) {
    append(out, "{");
    for (std::size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) append(out, ", ");
      append_repr(out, dict->entries[i].first, budget);
      append(out, ": ");
      append_repr(out, dict->entries[i].second, budget);
    }
    append(out, "}");
  } else if (value.is<Undefined>()) {
    append(out, "Undefined");
  } else {
    append(out, as_text(value, budget));
  }
}

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> room{};
  const auto made =
      std::to_chars(room.data(), room.data() + room.size(), value, std::chars_format::scientific);
  const std::string shortest(room.data(), made.ptr);
  const int exponent = std::atoi(shortest.c_str() + shortest.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return shortest;
  const auto plain = std::to_chars(room.data(), room.data() + room.size(), value, std::chars_format::fixed);
  std::string text(room.data(), plain.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Text as_text(const Value& value, Budget& budget) {
  if (const Text* text = value.text()) return *text;
  if (value.is<Undefined>()) return {};
  if (value.is<None>()) return to_text("None");
  if (const bool* flag = value.as<bool>()) return to_text(*flag ? "True" : "False");
  if (is_integer(value)) return to_text(str(integer_of(value)));
  if (const double* number = value.as<double>()) return to_text(float_text(*number));
  const List* list = value.list();
  if (value.dict() == nullptr && (list == nullptr || list->kind > ListKind::kTuple))
    throw Error(Code::kData, kind_of(value), " cannot be written as text");
  Text out;
  append_repr(out, value, budget);
  return out;
}

}  // namespace echelon::data::jinja
