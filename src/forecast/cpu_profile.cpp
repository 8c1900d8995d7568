#include "forecast/cpu_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "base/str.h"

namespace echelon::forecast {
namespace {

using Point = CpuProfile::Point;
using nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
constexpr std::size_t kNearest = 4;

/// The size of an operation: FLOPs, or bytes if it has none.
double size_of_point(const Point& point) {
  return point.flops > 0 ? point.flops : point.bytes;
}

double intensity_of(const Point& point) {
  return point.flops > 0 ? point.flops / std::max(1.0, point.bytes) : 1;
}

/// The time of `wanted`, from the rates of the nearest points, weighted by their distance.
double interpolate(const std::vector<Point>& points, const Point& wanted) {
  using Near = std::pair<double, double>;  // distance, logarithm of the rate
  std::vector<Near> all;
  const double size = std::log(std::max(1.0, size_of_point(wanted)));
  const double intensity = std::log(intensity_of(wanted));
  for (const Point& point : points) {
    const double in_size = std::log(size_of_point(point)) - size;
    const double in_intensity = std::log(intensity_of(point)) - intensity;
    // Not std::hypot, which GCC binds to glibc 2.35; release folders are for 2.34, too.
    const double distance = std::sqrt(in_size * in_size + 4 * in_intensity * in_intensity);
    all.emplace_back(distance, std::log(size_of_point(point) / point.seconds));
  }
  const std::size_t count = std::min(kNearest, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
  double weights = 0;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    constexpr double kTouching = 0.01;
    const double weight = 1 / std::pow(all[i].first + kTouching, 2);
    weights += weight;
    sum += weight * all[i].second;
  }
  return std::max(1.0, size_of_point(wanted)) / std::exp(sum / weights);
}

json to_json(const std::map<std::string, std::vector<Point>>& kinds) {
  json object = json::object();
  for (const auto& [key, points] : kinds) {
    json list = json::array();
    for (const Point& point : points) list.push_back({point.flops, point.bytes, point.seconds});
    object[key] = std::move(list);
  }
  return object;
}

[[noreturn]] void refuse(const std::string& file, const std::string& key, const std::string& expected) {
  throw Error(Code::kUsage, "profile '", file, "': ", key, ": expected ", expected,
              "; `echelon doctor job --calibrate FILE` writes a profile");
}

std::map<std::string, std::vector<Point>> points_of(const json& object, const std::string& file,
                                                    const std::string& section) {
  std::map<std::string, std::vector<Point>> kinds;
  if (!object.is_object()) refuse(file, section, "an object of lists");
  for (const auto& [key, list] : object.items()) {
    for (const json& entry : list) {
      constexpr std::size_t kNumbers = 3;
      const bool whole = entry.is_array() && entry.size() == kNumbers &&
                         std::ranges::all_of(entry, [](const json& n) { return n.is_number(); });
      if (!whole) refuse(file, str(section, ".", key), "lists of FLOPs, bytes and seconds");
      const Point point{entry[0].get<double>(), entry[1].get<double>(), entry[2].get<double>()};
      const bool sane = std::isfinite(size_of_point(point)) && size_of_point(point) > 0 &&
                        point.seconds > 0 && point.seconds < 3600;
      if (!sane) refuse(file, str(section, ".", key), "numbers above 0, and seconds below 3600");
      kinds[key].push_back(point);
    }
  }
  return kinds;
}

template <class T>
T number_at(const json& object, const std::string& key, const std::string& file) {
  if (!object.contains(key) || !object[key].is_number() || object[key].get<double>() <= 0)
    refuse(file, key, "a number above 0");
  return object[key].get<T>();
}

json read_file(const std::string& file) {
  return parse_foreign_json(fs::read_file(file, kMostBytes, Code::kUsage), str("profile '", file, "'"),
                            Code::kUsage);
}

}  // namespace

std::string key_after(const std::string& key, const std::string& previous) {
  return str(key, " after ", previous);
}

std::string key_of(OperationKind kind, DType type, bool alone) {
  const char* suffix = alone ? " alone" : "";
  switch (kind) {
    case OperationKind::kAllGather: return str("all_gather", suffix);
    case OperationKind::kReduceScatter: return str("reduce_scatter ", echelon::name_of(type), suffix);
    default: return str("all_reduce", suffix);
  }
}

std::string key_of(const std::string& name, const Work& work) {
  return str(name, ' ', echelon::name_of(work.type), work.divided ? "*" : "");
}

std::string to_json(const CpuProfile& p) {
  return json{{"kind", "cpu"},
              {"name", p.name},
              {"title", p.title},
              {"ranks_per_node", p.ranks_per_node},
              {"threads", p.threads},
              {"cores", p.cores},
              {"works", to_json(p.works)},
              {"before", to_json(p.before)},
              {"messages", to_json(p.messages)}}
             .dump(1) +
         '\n';
}

bool is_cpu_profile(const std::string& file) {
  if (!file.ends_with(".json") && file.find('/') == file.npos) return false;
  const json object = read_file(file);
  return object.is_object() && object.value("kind", json()) == "cpu";
}

CpuProfile read_cpu_profile(const std::string& file) {
  const json object = read_file(file);
  CpuProfile profile{.name = object.value("name", std::string("cpu")),
                     .title = object.value("title", std::string("CPU ranks")),
                     .ranks_per_node = number_at<int>(object, "ranks_per_node", file),
                     .threads = number_at<int>(object, "threads", file),
                     .cores = number_at<int>(object, "cores", file)};
  for (const char* section : {"works", "before", "messages"}) {
    if (!object.contains(section)) refuse(file, section, "an object of lists");
  }
  profile.works = points_of(object["works"], file, "works");
  profile.before = points_of(object["before"], file, "before");
  profile.messages = points_of(object["messages"], file, "messages");
  if (profile.works.empty()) refuse(file, "works", "at least one operation");
  return profile;
}

/// The points of the operation; else of the same name in another type, or of all that only move memory.
const std::vector<Point>* CpuRates::points_for(const Work& work) const {
  const std::string& name = trace_.names[work.name];
  if (const auto found = profile_.works.find(key_of(name, work)); found != profile_.works.end())
    return &found->second;
  const auto same = profile_.works.lower_bound(name + ' ');
  if (same != profile_.works.end() && same->first.starts_with(name + ' ')) return &same->second;
  const std::array<const char*, 2> general{work.flops > 0 ? "mm fp32" : "add_ fp32", "copy_ fp32"};
  for (const char* key : general) {
    if (const auto found = profile_.works.find(key); found != profile_.works.end()) return &found->second;
  }
  return &profile_.works.begin()->second;
}

double CpuRates::before_s(const Work& work, const Point& one, std::uint16_t previous) const {
  const std::string key = key_of(trace_.names[work.name], work);
  auto found = profile_.before.find(key_after(key, trace_.names[previous]));
  if (found == profile_.before.end()) found = profile_.before.find(key);
  return found == profile_.before.end() ? 0 : interpolate(found->second, one);
}

double CpuRates::seconds(const Work& work) const {
  if (work.flops <= 0 && work.bytes <= 0) return 0;
  // Threads take equal parts at the same time, or whole tasks in turn.
  const bool parts = work.divided && work.tasks == 0;
  const auto count = static_cast<double>(parts ? profile_.threads : std::max<std::int64_t>(1, work.tasks));
  const Point one{work.flops / count, work.bytes / count, 0};
  const double seconds = interpolate(*points_for(work), one);
  const double before = before_s(work, one, work.after);
  if (!work.divided || parts) return before + seconds;
  if (work.tasks == 1) return (before + seconds) / profile_.threads;
  const double turns = std::ceil(count / profile_.threads);
  return turns * seconds + before + (turns - 1) * before_s(work, one, work.again_after);
}

double CpuRates::seconds(const Message& message, const Group& group) const {
  const bool alone = group.ranks.size() <= 1;
  auto found = profile_.messages.find(key_of(message.kind, message.type, alone));
  if (found == profile_.messages.end())
    found = profile_.messages.find(key_of(message.kind, DType::kF32, alone));
  if (found == profile_.messages.end()) return 0;
  const auto own = static_cast<double>(message.count * size_of(message.type));
  return interpolate(found->second, {0, std::max(1.0, alone ? own : message.sent_bytes), 0});
}

}  // namespace echelon::forecast
