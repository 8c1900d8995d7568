#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"

/// Runs `use`, which may refuse its input by an Error of `code` with one line of text; any other Error is a
/// finding.
template <class Use>
void used_or_refused(echelon::Code code, const Use& use) {
  try {
    use();
  } catch (const echelon::Error& e) {
    const std::string text = e.what();
    if (e.code() != code || text.empty() || text.find('\n') != std::string::npos) std::abort();
  }
}

/// A fuzz target whose input is text: used_or_refused() of it.
template <class Use>
int text_used_or_refused(echelon::Code code, const std::uint8_t* data, std::size_t size, const Use& use) {
  used_or_refused(code, [&] { use(std::string(reinterpret_cast<const char*>(data), size)); });
  return 0;
}
