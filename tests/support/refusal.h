#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace echelon::test {

/// The Error that `body` throws, if it throws one.
template <class Body>
std::optional<Error> thrown_by(const Body& body) {
  try {
    (void)body();
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

/// The text of the Error that `body` throws, which must be of `code`; "accepted" when it throws none.
template <class Body>
std::string refusal(Code code, const Body& body) {
  const std::optional<Error> error = thrown_by(body);
  if (!error) return "accepted";
  EXPECT_EQ(error->code(), code) << error->what();
  return error->what();
}

/// "2: text" of the Error that `body` throws; "" when it throws none.
template <class Body>
std::string error_of(const Body& body) {
  const std::optional<Error> error = thrown_by(body);
  return error ? std::to_string(static_cast<int>(error->code())) + ": " + error->what() : "";
}

}  // namespace echelon::test
