#include "metrics/line.h"

#include <algorithm>
#include <array>
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
  return !name.empty() && std::ranges::none_of(name, [](unsigned char c) {
    constexpr unsigned char kDelete = 0x7f;
    return c < ' ' || c == kDelete;
  });
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

/// Cuts a file into lines without newlines. Of a line that is too long only the beginning is kept.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& file)
      : file_(file), fd_(fs::open_own_to_read(file, Code::kUsage)), block_(kReadBytes) {}

  /// False at the end. A last line without a newline counts.
  bool next(std::string& line) {
    line.clear();
    bool any = false;
    for (;;) {
      if (at_ == filled_ && !refill()) return any;
      any = true;
      const auto begin = block_.begin() + static_cast<std::ptrdiff_t>(at_);
      const auto end = std::find(begin, block_.begin() + static_cast<std::ptrdiff_t>(filled_), '\n');
      const auto room = static_cast<std::ptrdiff_t>(kMostLineBytes + 1 - line.size());
      line.append(begin, begin + std::min(end - begin, room));
      at_ += static_cast<std::size_t>(end - begin);
      if (at_ == filled_) continue;
      ++at_;
      return true;
    }
  }

 private:
  bool refill() {
    ssize_t got = -1;
    do {
      got = fs::disk().pread(fd_.get(), block_.data(), block_.size(), offset_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) throw Error(Code::kEnvironment, "cannot read '", file_.string(), "': ", fs::reason(errno));
    offset_ += got;
    at_ = 0;
    filled_ = static_cast<std::size_t>(got);
    return got > 0;
  }

  std::filesystem::path file_;
  fs::Fd fd_;
  std::vector<char> block_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  off_t offset_ = 0;
};

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
  LineReader reader(file);
  LineCounts counts;
  for (std::string text; reader.next(text);) {
    if (const std::optional<Line> line = parse_line(text)) {
      ++counts.lines;
      use(*line);
    } else if (!text.empty()) {
      ++counts.left_out;
    }
  }
  return counts;
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

}  // namespace echelon::metrics
