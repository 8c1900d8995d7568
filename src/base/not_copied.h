#pragma once

namespace echelon {

/// The base of what is neither copied nor moved.
struct NotCopied {
  NotCopied() = default;
  NotCopied(const NotCopied&) = delete;
  NotCopied& operator=(const NotCopied&) = delete;
};

}  // namespace echelon
