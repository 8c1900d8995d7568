#pragma once
#include <cstddef>

namespace echelon {

/// Bytes of a text.
struct TextSpan {
  std::size_t begin;
  std::size_t end;
  bool operator==(const TextSpan&) const = default;
};

}  // namespace echelon
