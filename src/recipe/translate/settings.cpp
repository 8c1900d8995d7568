#include "recipe/translate/settings.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "base/str.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

constexpr int kDeepest = 32;

/// A number without separators of its digits; other words as they are.
std::string plain(std::string word) {
  if (!word.empty() && word.find_first_not_of("0123456789_") == word.npos) std::erase(word, '_');
  return word;
}

/// "[0.9, \"q_proj\"]" of a list of scalars.
std::string flow(const YAML::Node& list) {
  std::vector<std::string> items;
  for (const YAML::Node& item : list) {
    double number = 0;
    const std::string word = plain(item.Scalar());
    items.push_back(read_number(word, number).empty() ? word : quoted(word));
  }
  return str('[', join(items, ", "), ']');
}

void flatten(const YAML::Node& node, const std::string& path, int depth, std::vector<Setting>& settings) {
  if (depth > kDeepest) throw Error(Code::kUsage, path, ": nested too deeply");
  const bool is_list =
      node.IsSequence() && std::ranges::all_of(node, [](const YAML::Node& item) { return item.IsScalar(); });
  if (node.IsMap()) {
    for (const auto& member : node)
      flatten(member.second, path.empty() ? member.first.Scalar() : str(path, '.', member.first.Scalar()),
              depth + 1, settings);
  } else if (node.IsSequence() && !is_list) {
    for (std::size_t i = 0; i < node.size(); ++i) flatten(node[i], str(path, '.', i), depth + 1, settings);
  } else {
    settings.push_back({path, node.Mark().line + 1,
                        is_list           ? flow(node)
                        : node.IsScalar() ? plain(node.Scalar())
                                          : ""});
  }
}

YAML::Node load(const std::string& name, const std::string& text, int line) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw Error(Code::kUsage, name, ':', std::max(line, error.mark.line + 1), ": ", error.msg);
  }
}

/// Sections and keys of TOML, whose scalars and lists mean the same in YAML. A list may go over lines.
std::vector<Setting> read_toml(const std::string& name, std::string_view text) {
  std::vector<Setting> settings;
  std::string section;
  std::string open;  // a list whose end is still to come, from its key on
  int line = 0;
  int begun = 0;
  for (const std::string& whole : split(text, '\n')) {
    const std::string words = trimmed(whole);
    ++line;
    if (open.empty()) begun = line;
    if (words.empty() || words[0] == '#') continue;
    if (open.empty() && words[0] == '[') {
      const std::size_t close = words.find(']');
      section = words.substr(1, std::min(close, words.size()) - 1) + '.';
      continue;
    }
    open += (open.empty() ? "" : " ") + words;
    if (std::ranges::count(open, '[') > std::ranges::count(open, ']')) continue;
    const std::size_t equals = open.find('=');
    if (equals == open.npos || open.find("\"\"\"") != open.npos)
      throw Error(Code::kUsage, name, ':', begun, ": expected key = value on one line, or a [section]");
    const std::size_t before = settings.size();
    flatten(load(name, open.substr(equals + 1), begun), section + trimmed(open.substr(0, equals)), 0,
            settings);
    for (std::size_t i = before; i < settings.size(); ++i) settings[i].line = begun;
    open.clear();
  }
  return settings;
}

}  // namespace

bool Setting::is_off() const {
  return text.empty() || has_word("false False none None null disabled []", text);
}

std::vector<Setting> read_settings(const std::string& name, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n{#");
  if (first == text.npos) throw Error(Code::kUsage, name, " is empty");
  if (name.ends_with(".toml")) return read_toml(name, text);
  const YAML::Node root = load(name, std::string(text), 1);
  if (!root.IsMap())
    throw Error(Code::kUsage, name,
                ": expected keys with values: YAML, JSON, or TOML in a file that ends in .toml");
  std::vector<Setting> settings;
  flatten(root, "", 0, settings);
  return settings;
}

}  // namespace echelon::recipe
