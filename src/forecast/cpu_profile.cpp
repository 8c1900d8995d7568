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

/// What an operation is measured by: FLOPs, or bytes where it has none.
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
    all.emplace_back(std::hypot(in_size, 2 * in_intensity), std::log(size_of_point(point) / point.seconds));
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
  throw Error(Code::kUsage, str("profile '", file, "': ", key, ": expected ", expected,
                                "; `echelon doctor job --calibrate FILE` writes a profile"));
}

std::map<std::string, std::vector<Point>> points_of(const json& object, const std::string& file,
                                                    const std::string& section) {
  std::map<std::string, std::vector<Point>> kinds;
  if (!object.is_object()) refuse(file, section, "an object of lists");
  for (const auto& [key, list] : object.items()) {
    for (const json& entry : list) {
      constexpr std::size_t kNumbers = 3;
      const bool whole = entry.is_array() && entry.size() == kNumbers &&
                         std::all_of(entry.begin(), entry.end(), [](const json& n) { return n.is_number(); });
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

const char* name_of_kind(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kReduceScatter:
      return "reduce_scatter";
    default:
      return "all_reduce";
  }
}

}  // namespace

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
              {"between_s", p.between_s},
              {"works", to_json(p.works)},
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
                     .cores = number_at<int>(object, "cores", file),
                     .between_s = number_at<double>(object, "between_s", file)};
  for (const char* section : {"works", "messages"}) {
    if (!object.contains(section)) refuse(file, section, "an object of lists");
  }
  profile.works = points_of(object["works"], file, "works");
  profile.messages = points_of(object["messages"], file, "messages");
  if (profile.works.empty()) refuse(file, "works", "at least one operation");
  return profile;
}

/// Of the operation; else of the same name in another type, or of all that only move memory.
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

double CpuRates::seconds(const Work& work) const {
  if (work.flops <= 0 && work.bytes <= 0) return 0;
  const double whole = interpolate(*points_for(work), {work.flops, work.bytes, 0});
  return work.divided ? whole / profile_.threads : whole + profile_.between_s;
}

double CpuRates::seconds(const Message& message, const Group& group) const {
  if (group.ranks.size() <= 1) {
    // One rank copies or adds its own data.
    Work copy{.bytes = 3.0 * static_cast<double>(message.count * size_of(message.type))};
    return message.kind == OperationKind::kReduceScatter ? seconds(copy) : 0;
  }
  const auto found = profile_.messages.find(name_of_kind(message.kind));
  if (found == profile_.messages.end()) return 0;
  return interpolate(found->second, {0, std::max(1.0, message.sent_bytes), 0});
}

}  // namespace echelon::forecast
