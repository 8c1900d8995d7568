#include "support/golden_table.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/str.h"

namespace echelon::test {
namespace {

constexpr std::string_view kCaseMark = "== ";
constexpr std::string_view kPartMark = "-- ";
constexpr char kEscape = '\\';
constexpr std::uint64_t kMaxBytes = 1 << 20;

constexpr std::string_view kDigits = "0123456789abcdef";

bool visible(char c) {
  return c >= ' ' && c <= '~';
}

/// What a line that begins with a backslash stands for; nothing where it is misspelt.
std::optional<std::string> unescaped(std::string_view line) {
  if (line == "\\") return "\n";
  if (!line.starts_with("\\ ")) return std::nullopt;
  line.remove_prefix(2);
  std::string text;
  while (!line.empty()) {
    if (line == "\\c") return text;
    if (line[0] != kEscape) {
      text += line[0];
      line.remove_prefix(1);
    } else if (line.starts_with("\\\\")) {
      text += kEscape;
      line.remove_prefix(2);
    } else {
      const std::size_t high = line.size() < 4 ? kDigits.npos : kDigits.find(line[2]);
      const std::size_t low = line.size() < 4 ? kDigits.npos : kDigits.find(line[3]);
      if (high == kDigits.npos || low == kDigits.npos || line[1] != 'x') return std::nullopt;
      text += static_cast<char>(high * 16 + low);
      line.remove_prefix(4);
    }
  }
  return text + "\n";
}

std::string escaped(std::string_view line, bool ends) {
  std::string text(1, kEscape);
  if (!line.empty() || !ends) text += ' ';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == kEscape) {
      text += "\\\\";
    } else if (visible(c) && (c != ' ' || i + 1 < line.size())) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += {kEscape, 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return text + (ends ? "\n" : "\\c\n");
}

/// Could be read as another line, or not be seen.
bool needs_escape(std::string_view line) {
  return line.starts_with(kCaseMark) || line.starts_with(kPartMark) || line.starts_with(kEscape) ||
         line.ends_with(' ') || !std::all_of(line.begin(), line.end(), visible);
}

void spell_text(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (end == line.npos || needs_escape(line) || (line.empty() && text.empty())) {
      out += escaped(line, end != line.npos);
    } else {
      out.append(line).append("\n");
    }
  }
}

class Parser {
 public:
  explicit Parser(std::string file) : file_(std::move(file)) {}

  void line(std::string_view line) {
    ++number_;
    if (line.starts_with(kCaseMark)) {
      start_case(std::string(line.substr(kCaseMark.size())));
    } else if (line.starts_with(kPartMark)) {
      start_part(std::string(line.substr(kPartMark.size())));
    } else if (line.empty()) {
      ++blank_lines_;  // counts where more follows
    } else {
      text().append(blank_lines_, '\n');
      blank_lines_ = 0;
      if (!text().empty() && text().back() != '\n') fault("nothing may follow \\c");
      text() += content(line);
    }
  }
  GoldenTable take() { return std::move(table_); }

 private:
  [[noreturn]] void fault(const std::string& what) const {
    throw Error(Code::kUsage, str(file_, ":", number_, ": ", what));
  }
  std::string& text() {
    return table_.cases.empty() ? table_.about : table_.cases.back().parts.back().second;
  }

  void start_case(std::string name) {
    if (table_.find(name) != nullptr) fault(str("a second case '", name, "'"));
    table_.cases.push_back({std::move(name), {{"", ""}}});
    blank_lines_ = 0;
  }
  void start_part(std::string name) {
    if (table_.cases.empty()) fault("a part before the first case");
    GoldenCase& last = table_.cases.back();
    if (last.part(name) != nullptr) fault(str("a second part '", name, "' of '", last.name, "'"));
    last.parts.emplace_back(std::move(name), "");
    blank_lines_ = 0;
  }
  [[nodiscard]] std::string content(std::string_view line) const {
    if (line[0] != kEscape) return std::string(line) + "\n";
    const std::optional<std::string> text = unescaped(line);
    if (!text)
      fault("expected a space behind the backslash, then \\\\, \\xNN or a final \\c for each other one");
    return *text;
  }

  std::string file_;
  std::size_t number_ = 0;
  std::size_t blank_lines_ = 0;
  GoldenTable table_;
};

void put(GoldenTable& table, const std::string& name, const std::string& part, const std::string& text) {
  const auto at = std::find_if(table.cases.begin(), table.cases.end(),
                               [&](const GoldenCase& known) { return known.name == name; });
  GoldenCase& into = at == table.cases.end() ? table.cases.emplace_back(GoldenCase{name, {{"", ""}}}) : *at;
  for (auto& [known, old] : into.parts) {
    if (known == part) {
      old = text;
      return;
    }
  }
  into.parts.emplace_back(part, text);
}

void update(const std::filesystem::path& file, const std::string& name, const std::string& part,
            const std::string& text) {
  // The folder is what is locked: the file is replaced.
  const fs::Fd folder = fs::open(file.parent_path(), O_RDONLY | O_DIRECTORY, Code::kUsage);
  if (::flock(folder.get(), LOCK_EX) != 0)
    throw Error(Code::kUsage, str("cannot lock '", file.parent_path().string(), "': ", fs::reason(errno)));
  GoldenTable table = read_golden(file);
  put(table, name, part, text);
  const std::string spelt = spell_golden(table);
  if (spelt != fs::read_file(file, kMaxBytes, Code::kUsage)) fs::publish_file(file, spelt, Code::kUsage);
}

}  // namespace

const std::string* GoldenCase::part(std::string_view part_name) const {
  for (const auto& [known, text] : parts) {
    if (known == part_name) return &text;
  }
  return nullptr;
}

const GoldenCase* GoldenTable::find(std::string_view name) const {
  for (const GoldenCase& known : cases) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

GoldenTable parse_golden(std::string_view content, const std::string& file) {
  Parser parser(file);
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    parser.line(content.substr(0, end));
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return parser.take();
}

GoldenTable read_golden(const std::filesystem::path& file) {
  return parse_golden(fs::read_file(file, kMaxBytes, Code::kUsage), file.string());
}

std::string spell_golden(const GoldenTable& table) {
  std::string out;
  spell_text(out, table.about);
  for (const GoldenCase& known : table.cases) {
    out += str(out.empty() ? "" : "\n", kCaseMark, known.name, "\n");
    for (const auto& [part, text] : known.parts) {
      if (!part.empty()) out += str(kPartMark, part, "\n");
      spell_text(out, text);
    }
  }
  return out;
}

std::vector<std::filesystem::path> golden_tables(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> tables = fs::list_folder(folder, Code::kUsage);
  std::erase_if(tables, [](const std::filesystem::path& file) { return file.extension() != ".txt"; });
  return tables;
}

std::string golden(const std::filesystem::path& table, const std::string& name, const std::string& part,
                   const std::string& said) {
  const char* wish = std::getenv("ECHELON_UPDATE_GOLDEN");
  if (wish != nullptr && std::string_view(wish) == "1") update(table, name, part, said);
  const GoldenTable read = read_golden(table);
  const GoldenCase* known = read.find(name);
  const std::string* text = known == nullptr ? nullptr : known->part(part);
  if (text == nullptr) {
    throw Error(Code::kUsage, str("'", table.string(), "' has no text", part.empty() ? "" : " '", part,
                                  part.empty() ? "" : "'", " of '", name, "'; it would be:\n", said));
  }
  return *text;
}

}  // namespace echelon::test
