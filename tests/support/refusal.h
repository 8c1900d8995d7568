#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace echelon::test {

/// The text of the Error that `body` throws, which must be of `code`; "accepted" when it throws none.
template <class Body>
std::string refusal(Code code, const Body& body) {
  try {
    (void)body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "accepted";
}

/// "2: text" of the Error that `body` throws; "" when it throws none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    (void)body();
  } catch (const Error& e) {
    return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
  }
  return "";
}

}  // namespace echelon::test
