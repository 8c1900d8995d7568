#pragma once
#include <gtest/gtest.h>
#include <regex.h>

#include <string>

namespace echelon::test {

/// Whether all of `text` is what a POSIX extended regular expression says. (Of std::regex, GCC 12 warns where
/// sanitizers are on.)
inline bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    ADD_FAILURE() << "no regular expression: " << pattern;
    return false;
  }
  const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return found;
}

}  // namespace echelon::test
