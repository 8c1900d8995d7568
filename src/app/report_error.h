#pragma once
#include <string>

#include "base/error.h"

namespace echelon::app {

/// Prints "echelon: <where>: <text>" to standard error, a line for each line of the error's text, and returns
/// the exit code. One that is reported already prints nothing. `where` may be empty.
int report_error(const Error& error, const std::string& where);

}  // namespace echelon::app
