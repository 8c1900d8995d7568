#include "recipe/yaml/writer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/number.h"
#include "base/str.h"
#include "recipe/load.h"
#include "recipe/yaml/json_value.h"

namespace echelon::recipe {
namespace {

using Json = nlohmann::ordered_json;

/// Returns whether every YAML reader reads the unquoted text as a string.
bool is_plain(const std::string& text) {
  const std::string lower = in_lower_case(text);
  return lower.find_first_of("abcdefghijklmnopqrstuvwxyz/") == 0 &&
         lower.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_./-") == lower.npos &&
         !has_word("true false yes no on off null y n nan", lower);
}

std::vector<std::string> entries(const Json& value);

std::string text_of(const Json& value) {
  if (value.is_object()) return str("{", join(entries(value), ", "), "}");
  if (value.is_array()) return str("[", join(entries(value), ", "), "]");
  if (value.is_number_float()) return shortest(value.get<double>());
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  return is_plain(text) ? text : quoted(text);
}

/// The entries of a list or map as texts; other values have none.
std::vector<std::string> entries(const Json& value) {
  std::vector<std::string> all;
  if (!value.is_structured()) return all;
  for (const auto& [name, entry] : value.items())
    all.push_back(value.is_object() ? str(text_of(name), ": ", text_of(entry)) : text_of(entry));
  return all;
}

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
  const Json value = json_value(key, recipe);
  const std::string text = text_of(value);
  const std::vector<std::string> each = entries(value);
  if (text.size() <= kLongest || each.empty()) {
    return {{str(indent, leaf_of(key.path), ": ", text), ""}};
  }
  std::vector<Line> lines{{str(indent, leaf_of(key.path), ":"), ""}};
  for (const std::string& entry : each) {
    lines.push_back({str(indent, value.is_object() ? "  " : "  - ", entry), ""});
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

std::string written(const Key& key, const Recipe& recipe) {
  return text_of(json_value(key, recipe));
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
