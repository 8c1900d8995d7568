#include "app/doctor/machine/version.h"

#include <charconv>

namespace echelon::app::doctor {

std::optional<Version> find_version(std::string_view text) {
  const auto start = text.find_first_of("0123456789");
  if (start == text.npos) return std::nullopt;
  Version version{};
  const char* next = text.data() + start;
  const char* const end = text.data() + text.size();
  for (int& part : version) {
    const auto [stop, fault] = std::from_chars(next, end, part);
    if (fault != std::errc{}) return std::nullopt;  // the number exceeds int
    if (stop == end || *stop != '.' || stop + 1 == end || stop[1] < '0' || stop[1] > '9') break;
    next = stop + 1;
  }
  return version;
}

}  // namespace echelon::app::doctor
