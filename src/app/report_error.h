#pragma once
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon::app {

/// Prints "echelon: <where>: <text>" to standard error, one line for each line of the error's text. Prints
/// nothing for an error that is already reported. Returns the exit code. `where` may be empty.
inline int report_error(const Error& error, const std::string& where) {
  if (!error.is_reported()) log::error(str("echelon: ", where, where.empty() ? "" : ": ", error.what()));
  log::flush();
  return static_cast<int>(error.code());
}

}  // namespace echelon::app
