#include "recipe/check/multiples.h"

#include <vector>

#include "base/options/checked.h"
#include "base/str.h"

namespace echelon::recipe {

std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  const Checked first = below == 0 ? unit : below;
  const auto second = (first + unit).value();
  return second ? str(*first.value(), " or ", *second) : str(*first.value());
}

std::string divisors_of(std::int64_t value) {
  std::vector<std::string> divisors;
  for (std::int64_t d = 1; d <= value && divisors.size() < 20; ++d) {
    if (value % d == 0) divisors.push_back(std::to_string(d));
  }
  return join(divisors, ", ");
}

}  // namespace echelon::recipe
