#include "metrics/line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "base/foreign_json.h"

namespace echelon::metrics {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;

bool is_plain(const std::string& name) {
  return !name.empty() && std::ranges::none_of(name, [](unsigned char c) { return std::iscntrl(c) != 0; });
}

void collect(const nlohmann::json& object, const std::string& before, std::vector<Value>& values) {
  for (const auto& [name, value] : object.items()) {
    std::string tag = before + name;
    if (!is_plain(name) || tag.size() > kMostTagBytes) continue;
    if (value.is_object()) {
      collect(value, tag + "/", values);
    } else if (value.is_number() && std::isfinite(value.get<double>())) {
      values.push_back({std::move(tag), value.get<double>()});
    }
  }
}

/// Gives `take` the lines of a file, without newlines; of one that is too long only the beginning. A last
/// line without a newline counts.
void cut(const std::filesystem::path& file, const std::function<void(const std::string&)>& take) {
  const fs::Fd fd = fs::open_own_to_read(file, Code::kUsage);
  std::vector<char> block(kReadBytes);
  std::string line;
  for (off_t offset = 0;;) {
    const ssize_t got = fs::disk().pread(fd.get(), block.data(), block.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Code::kEnvironment, "cannot read '", file.string(), "': ", fs::reason(errno));
    if (got == 0) break;
    offset += got;
    std::string_view left(block.data(), static_cast<std::size_t>(got));
    for (std::size_t end = left.find('\n'); end != left.npos; end = left.find('\n')) {
      take(line.append(left.substr(0, std::min(end, kMostLineBytes + 1 - line.size()))));
      line.clear();
      left.remove_prefix(end + 1);
    }
    line.append(left.substr(0, kMostLineBytes + 1 - line.size()));
  }
  if (!line.empty()) take(line);
}

}  // namespace

std::optional<Line> parse_line(std::string_view text) {
  if (text.size() > kMostLineBytes) return std::nullopt;
  constexpr int kDepth = 4;
  const nlohmann::json object = read_foreign_json(text, {.bytes = kMostLineBytes, .depth = kDepth}).value;
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    return std::nullopt;
  Line line{.step = object["step"].get<std::int64_t>()};
  collect(object, "", line.values);
  const auto time = std::ranges::find_if(line.values, [](const Value& value) { return value.tag == "time"; });
  if (time != line.values.end()) line.time_s = time->value;
  return line;
}

LineCounts for_each_line(const std::filesystem::path& file, const std::function<void(const Line&)>& use) {
  LineCounts counts;
  cut(file, [&](const std::string& text) {
    if (const std::optional<Line> line = parse_line(text)) {
      ++counts.lines;
      use(*line);
    } else if (!text.empty()) {
      ++counts.left_out;
    }
  });
  return counts;
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

}  // namespace echelon::metrics
