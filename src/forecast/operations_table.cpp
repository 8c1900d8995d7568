#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/str.h"
#include "forecast/report.h"

namespace echelon::forecast {
namespace {

const char* limit_of(Cost cost) {
  switch (cost) {
    case Cost::kProduct:
    case Cost::kFp8Product:
    case Cost::kAttention:
    case Cost::kAttentionBackward: return "arithmetic";
    case Cost::kMemory: return "memory";
    case Cost::kHostCopy: return "host link";
  }
  return "";
}

}  // namespace

std::string operations_table(const Timeline& timeline) {
  using Row = std::pair<std::string, NameTotal>;
  std::vector<Row> rows(timeline.by_name.begin(), timeline.by_name.end());
  std::ranges::sort(rows, [](const Row& a, const Row& b) { return a.second.seconds > b.second.seconds; });
  std::string text =
      "operation                      count     TFLOP     GB moved   ms      share  limited by\n";
  constexpr double kGiga = 1e9;
  constexpr double kTera = 1e12;
  for (const auto& [name, total] : rows) {
    char line[160];
    std::snprintf(line, sizeof(line), "%-30s %-9lld %-9.3f %-10.2f %-7.2f %4.1f %%  %s\n", name.c_str(),
                  static_cast<long long>(total.count), total.flops / kTera, total.bytes / kGiga,
                  total.seconds * 1e3, 100 * total.seconds / timeline.step_s, limit_of(total.cost));
    text += line;
  }
  return text;
}

}  // namespace echelon::forecast
