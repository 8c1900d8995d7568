#include "recipe/draft.h"

#include <algorithm>

#include "base/str.h"
#include "recipe/keys/keys.h"

namespace echelon::recipe {

void set_values(const std::vector<std::string>& overrides, std::vector<DraftLine>& lines) {
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    const std::string chosen = "chosen so that it fits, and is fast";
    const auto same = std::ranges::find(lines, key, &DraftLine::key);
    if (same != lines.end()) {
      same->value = value;
      same->comment = chosen;
      continue;
    }
    const auto last = std::find_if(lines.rbegin(), lines.rend(), [&](const DraftLine& line) {
      return parent_of(line.key) == parent_of(key);
    });
    lines.insert(last.base() == lines.begin() ? lines.end() : last.base(), {key, value, chosen});
  }
}

std::string yaml_of(const std::vector<DraftLine>& lines, const std::string& heading) {
  constexpr std::size_t kComment = 36;  // column
  std::string text = heading;
  std::string open;  // the section of the line before
  for (const DraftLine& line : lines) {
    const std::string section = parent_of(line.key);
    if (section != open) {
      const std::size_t point = section.find('.');
      const std::string outer = section.substr(0, point);
      if (open.substr(0, open.find('.')) != outer) text += str(text.empty() ? "" : "\n", outer, ":\n");
      if (point != section.npos) text += str("  ", section.substr(point + 1), ":\n");
      open = section;
    }
    const std::string indent(section.find('.') == section.npos ? 2 : 4, ' ');
    std::string written = str(indent, line.key.substr(section.size() + 1), ": ", line.value);
    if (!line.comment.empty()) {
      written.resize(std::max(kComment, written.size() + 2), ' ');
      written += "# " + line.comment;
    }
    text += written + '\n';
  }
  return text;
}

}  // namespace echelon::recipe
