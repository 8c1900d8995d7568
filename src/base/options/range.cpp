#include "base/options/range.h"

#include "base/str.h"

namespace echelon {

std::string words(const NumberRange& range) {
  if (range.low_excluded) {
    return str("greater than ", range.low, range.high_excluded ? " and less than " : " and at most ",
               range.high);
  }
  return str("from ", range.low, range.high_excluded ? " to less than " : " to ", range.high);
}

std::string words(const IntegerRange& range) {
  return str("an integer from ", range.low, " to ", range.high);
}

}  // namespace echelon
