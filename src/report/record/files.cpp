#include "report/record/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "base/foreign_json.h"
#include "base/str.h"

namespace echelon::report {
namespace {

bool is_there(const fs::Path& path) {
  struct stat info {};
  return fs::disk().lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

std::string read_part(const fs::Fd& file, const fs::Path& path, std::uint64_t offset, std::uint64_t size) {
  std::string text(size, '\0');
  fs::read_at(file, offset, std::as_writable_bytes(std::span(text)), Code::kEnvironment, path);
  return text;
}

}  // namespace

std::optional<std::string> read_if_there(const fs::Path& file, std::uint64_t max_bytes, Missing& missing) {
  if (!is_there(file)) return std::nullopt;
  try {
    return fs::read_own_file(file, max_bytes, Code::kEnvironment);
  } catch (const Error& error) {
    missing.emplace_back(error.what());
  }
  return std::nullopt;
}

nlohmann::json read_json_if_there(const fs::Path& file, std::uint64_t max_bytes, Missing& missing) {
  const auto text = read_if_there(file, max_bytes, missing);
  if (!text) return nullptr;
  ForeignJson read = read_foreign_json(*text);
  if (read.problem.empty()) return std::move(read.value);
  missing.push_back(str(file.filename().string(), " is not used: ", read.problem));
  return nullptr;
}

HeadAndTail read_ends(const fs::Path& file, std::uint64_t head, std::uint64_t tail, Missing& missing) {
  HeadAndTail ends;
  if (!is_there(file)) return ends;
  try {
    const fs::Fd open = fs::open_own_to_read(file, Code::kEnvironment);
    struct stat info {};
    if (fs::disk().fstat(open.get(), &info) != 0) return ends;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size <= head + tail) {
      ends.head = read_part(open, file, 0, size);
      return ends;
    }
    ends.head = read_part(open, file, 0, head);
    ends.head.resize(ends.head.rfind('\n') == std::string::npos ? 0 : ends.head.rfind('\n') + 1);
    ends.tail = read_part(open, file, size - tail, tail);
    const std::size_t whole = ends.tail.find('\n');
    ends.tail.erase(0, whole == std::string::npos ? ends.tail.size() : whole + 1);
  } catch (const Error& error) {
    missing.emplace_back(error.what());
  }
  return ends;
}

std::vector<std::string> names_in(const fs::Path& folder, Missing& missing) {
  std::vector<std::string> names;
  if (fs::disk().list(folder.c_str(), names) != 0) {
    if (errno != ENOENT) missing.push_back(str("cannot list '", folder.string(), "': ", fs::reason(errno)));
    return {};
  }
  std::ranges::sort(names);
  return names;
}

std::optional<double> changed_at(const fs::Path& file) {
  struct stat info {};
  if (fs::disk().lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  constexpr double kNano = 1e-9;
  return static_cast<double>(info.st_mtim.tv_sec) + kNano * static_cast<double>(info.st_mtim.tv_nsec);
}

const nlohmann::json& member_of(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::optional<double> number_in(const nlohmann::json& object, const char* name) {
  return number_at(member_of(object, name), "");
}

std::string text_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = member_of(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<double> number_at(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json::json_pointer place(pointer);
  if (!object.contains(place)) return std::nullopt;
  const nlohmann::json& value = object.at(place);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

}  // namespace echelon::report
