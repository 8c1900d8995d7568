#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "text/template/builtins.h"

namespace echelon::data::jinja {
namespace {

std::string unit(std::uint32_t code) {
  return "\\u" + hex_digits(code, 4);
}

std::string json_escape(std::uint32_t code, bool ensure_ascii) {
  constexpr std::string_view kCodes = "\"\\\n\r\t\f\b";
  constexpr std::string_view kLetters = "\"\\nrtfb";
  const auto found = code < 128 ? kCodes.find(static_cast<char>(code)) : std::string_view::npos;
  if (found != std::string_view::npos) return {'\\', kLetters[found]};
  if (code >= 32 && (code < 127 || !ensure_ascii)) return "";
  if (code < 0x10000) return unit(code);
  return unit(0xD800 + ((code - 0x10000) >> 10)) + unit(0xDC00 + ((code - 0x10000) & 0x3FFU));
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, bool ensure_ascii, int indent, bool sort_keys)
      : budget_(budget), ensure_ascii_(ensure_ascii), indent_(indent), sort_keys_(sort_keys) {}

  void write(const Value& value) {
    budget_.use(4);
    if (const Text* text = value.text()) return quoted(*text);
    if (const List* list = value.list(); list != nullptr && list->kind <= ListKind::kTuple)
      return items(list->items);
    if (const Dict* dict = value.dict()) return entries(*dict);
    append(out, plain(value));
  }

  Text out;

 private:
  static std::string plain(const Value& value) {
    if (value.is<None>()) return "null";
    if (const bool* flag = value.as<bool>()) return *flag ? "true" : "false";
    if (is_integer(value)) return str(integer_of(value));
    if (const double* number = value.as<double>()) {
      const std::string text = float_text(*number);
      return text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
    }
    throw Error(Code::kData, kind_of(value), " cannot be written as JSON");
  }

  void quoted(const Text& text) {
    budget_.use(6 * text.size());
    append(out, "\"");
    for (const Char c : text) {
      const std::string escape = json_escape(c.code, ensure_ascii_);
      if (escape.empty()) {
        out.push_back(c);
      } else {
        append(out, to_text(escape, c.origin));
      }
    }
    append(out, "\"");
  }

  void line() {
    if (indent_ < 0) return;
    const auto spaces = static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level_);
    budget_.use(spaces + 1);
    append(out, "\n");
    append(out, std::string(spaces, ' '));
  }

  template <class Each>
  void enclosed(char open, char close, std::size_t count, const Each& each) {
    append(out, std::string_view(&open, 1));
    ++level_;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) append(out, indent_ < 0 ? ", " : ",");
      line();
      each(i);
    }
    --level_;
    if (count > 0) line();
    append(out, std::string_view(&close, 1));
  }

  void items(const Items& list) {
    enclosed('[', ']', list.size(), [&](std::size_t i) { write(list[i]); });
  }

  void entries(const Dict& dict) {
    Entries sorted;
    if (sort_keys_) {
      sorted = dict.entries;
      std::ranges::stable_sort(
          sorted, [&](const auto& a, const auto& b) { return is_less(a.first, b.first, budget_); });
    }
    const Entries& list = sort_keys_ ? sorted : dict.entries;
    enclosed('{', '}', list.size(), [&](std::size_t i) {
      const Value& key = list[i].first;
      quoted(key.text() != nullptr ? *key.text() : to_text(plain(key)));
      append(out, ": ");
      write(list[i].second);
    });
  }

  Budget& budget_;
  bool ensure_ascii_;
  int indent_;
  bool sort_keys_;
  int level_ = 0;
};

}  // namespace

Text json_of(const Value& value, Budget& budget, bool ensure_ascii, int indent, bool sort_keys) {
  JsonWriter writer(budget, ensure_ascii, indent, sort_keys);
  writer.write(value);
  return std::move(writer.out);
}

}  // namespace echelon::data::jinja
