#include "recipe/yaml/writer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/str.h"
#include "recipe/load.h"

namespace echelon::recipe {
namespace {

/// Returns whether every YAML reader reads the unquoted text as a string.
bool is_plain(const std::string& text) {
  static constexpr std::array<std::string_view, 10> kWords{"true", "false", "yes", "no", "on",
                                                           "off",  "null",  "y",   "n",  "nan"};
  std::string lower;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || (std::isalnum(byte) == 0 && c != '_' && c != '.' && c != '/' && c != '-'))
      return false;
    lower += static_cast<char>(std::tolower(byte));
  }
  if (text.empty() || (std::isalpha(static_cast<unsigned char>(text[0])) == 0 && text[0] != '/'))
    return false;
  return std::ranges::find(kWords, lower) == kWords.end();
}

std::string text_of(const std::string& text) {
  return is_plain(text) ? text : quoted(text);
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

std::string text_of(double value) {
  return shortest(value);
}

std::string text_of(FloatType value) {
  return std::string(word_of(value));
}

std::string text_of(const SchedulePhase& phase) {
  return text_of(phase_text(phase));
}

struct EntryWriter {
  template <class Field>
  std::vector<std::string> operator()(const Field& /*field*/) const {
    return {};
  }
  template <class Element>
  std::vector<std::string> operator()(std::vector<Element>* list) const {
    return mapped(*list, [](const Element& element) { return text_of(element); });
  }
  template <class Value>
  std::vector<std::string> operator()(PatternMap<Value>* map) const {
    return mapped(*map,
                  [](const auto& entry) { return str(text_of(entry.first), ": ", text_of(entry.second)); });
  }
};

struct Writer {
  std::string operator()(const bool* value) const { return text_of(*value); }
  std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return text_of(*value); }
  std::string operator()(const SwitchOrCount* value) const {
    return value->count > 0 ? std::to_string(value->count) : text_of(value->on);
  }
  std::string operator()(ChoiceField field) const { return std::string(field.word()); }
  std::string operator()(const std::array<double, 2>* value) const {
    return str("[", shortest((*value)[0]), ", ", shortest((*value)[1]), "]");
  }
  std::string operator()(const std::string* value) const { return text_of(*value); }
  template <class Element>
  std::string operator()(std::vector<Element>* list) const {
    return str("[", join(EntryWriter()(list), ", "), "]");
  }
  template <class Value>
  std::string operator()(PatternMap<Value>* map) const {
    return str("{", join(EntryWriter()(map), ", "), "}");
  }
};

struct Line {
  std::string text;
  std::string comment;
};

/// Writes the headings of those sections around `path` that are not open yet.
void open_sections(const std::string& path, std::string& open, std::vector<Line>& lines) {
  const std::string parent = parent_of(path);
  if (parent.empty() || parent == open) return;
  if (!(open == parent || open.starts_with(parent + "."))) {
    open_sections(parent, open, lines);
    const auto depth = static_cast<std::size_t>(std::ranges::count(parent, '.'));
    lines.push_back({str(std::string(2 * depth, ' '), leaf_of(parent), ":"), ""});
  }
  open = parent;
}

/// The lines of a key. A long list or map takes one line per entry, because the parser limits the length of a
/// line.
std::vector<Line> lines_of(const Key& key, const Recipe& recipe) {
  static constexpr std::size_t kLongest = 60;
  const std::string indent(2 * static_cast<std::size_t>(std::ranges::count(key.path, '.')), ' ');
  const std::string value = written(key, recipe);
  Recipe copy = recipe;
  const Slot slot = key.slot(copy);
  const std::vector<std::string> each = entries(slot);
  if (value.size() <= kLongest || each.empty()) {
    return {{str(indent, leaf_of(key.path), ": ", value), ""}};
  }
  std::vector<Line> lines{{str(indent, leaf_of(key.path), ":"), ""}};
  for (const std::string& entry : each) {
    lines.push_back({str(indent, is_map(slot) ? "  " : "  - ", entry), ""});
  }
  return lines;
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x" + hex_digits(byte, 2);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string shortest(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find('.') != std::string::npos) return text;
  const std::size_t exponent = text.find('e');
  return exponent == std::string::npos ? text + ".0" : text.insert(exponent, ".0");
}

std::string phase_text(const SchedulePhase& phase) {
  return phase.steps > 0 ? str(word_of(phase.kind), " ", phase.steps) : std::string(word_of(phase.kind));
}

std::vector<std::string> entries(const Slot& slot) {
  return std::visit(EntryWriter(), slot);
}

std::string written(const Key& key, const Recipe& recipe) {
  Recipe copy = recipe;  // Key::slot needs a mutable recipe
  return std::visit(Writer(), key.slot(copy));
}

}  // namespace echelon::recipe

namespace echelon {

std::string to_yaml(const Recipe& recipe, const std::map<std::string, std::string>* origins) {
  std::vector<recipe::Line> lines;
  std::string open;
  std::size_t width = 0;
  for (const recipe::Key& key : recipe::keys()) {
    recipe::open_sections(key.path, open, lines);
    std::vector<recipe::Line> own = recipe::lines_of(key, recipe);
    if (origins != nullptr && origins->contains(key.path)) own.front().comment = origins->at(key.path);
    width = std::max(width, own.front().text.size());
    lines.insert(lines.end(), own.begin(), own.end());
  }
  std::string out;
  for (const recipe::Line& line : lines) {
    out += line.text;
    if (!line.comment.empty()) out += std::string(width + 2 - line.text.size(), ' ') + "# " + line.comment;
    out += '\n';
  }
  return out;
}

std::map<int, std::string> named_origins(std::string_view yaml) {
  constexpr std::string_view kMark = " # ";
  std::map<int, std::string> origins;
  for (int line = 1; !yaml.empty(); ++line) {
    const std::string_view text = yaml.substr(0, yaml.find('\n'));
    if (const std::size_t at = text.rfind(kMark); at != text.npos)
      origins[line] = text.substr(at + kMark.size());
    yaml.remove_prefix(std::min(text.size() + 1, yaml.size()));
  }
  return origins;
}

}  // namespace echelon
