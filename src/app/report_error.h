#pragma once
#include <string>

#include "base/error.h"

namespace echelon::app {

/// Prints "echelon: <where>: <text>" to standard error, one line for each line of the error's text. Prints
/// nothing for an error that is already reported. Returns the exit code. `where` may be empty.
int report_error(const Error& error, const std::string& where);

}  // namespace echelon::app
