#include "app/doctor/rates/rates.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"

namespace echelon::app::doctor {
namespace {

/// Three digits are enough for a measured rate.
double three_digits(double value) {
  if (value <= 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

}  // namespace

Finding judge_rates(const std::string& name, const std::string& what, const std::string& unit,
                    const std::vector<Rate>& rates, double slow, const std::string& advice) {
  std::vector<double> sorted;
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const Rate& rate : rates) {
    sorted.push_back(rate.value);
    values[rate.host] = three_digits(rate.value);
  }
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  Complaints slower;
  for (const Rate& rate : rates) {
    if (rate.value >= slow * median) continue;
    slower.add(rate.host, str(rate.host, " ", what, " ", three_digits(rate.value), " ", unit, ", others ",
                              three_digits(median)));
  }
  Finding finding =
      slower.none() ? ok(name, str(rates.size() == 1 ? rates[0].host : str("the slowest of ", rates.size()),
                                   " ", what, " ", three_digits(sorted[0]), " ", unit,
                                   rates.size() == 1 ? "" : str(", the median ", three_digits(median))))
                    : fault(name, join(slower.texts, "; "), advice, slower.nodes);
  finding.values = std::move(values);
  return finding;
}

}  // namespace echelon::app::doctor
