#pragma once
#include <gtest/gtest.h>
#include <regex.h>

#include <string>

namespace echelon::test {

/// Whether all of `text` is what a POSIX extended regular expression says.
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

/// Whether all `parts` are in `text`; where an expectation fails, it shows the text.
template <class... Parts>
::testing::AssertionResult mentions(const std::string& text, const Parts&... parts) {
  std::string missing;
  const auto look = [&](const std::string& part) {
    if (text.find(part) == std::string::npos) missing += "'" + part + "' is not in: ";
  };
  (look(parts), ...);
  return (missing.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << missing << text;
}

/// What `body` writes to standard error.
template <class Body>
std::string said_by(const Body& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

}  // namespace echelon::test

#define EXPECT_MENTIONS(...) EXPECT_TRUE(::echelon::test::mentions(__VA_ARGS__))
