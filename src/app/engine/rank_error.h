#pragma once
#include <string>

#include "base/error.h"
#include "bootstrap/job.h"

namespace echelon::app {

/// What is being thrown, as one line and a code. `out_of_memory`: the text where that is the cause.
[[nodiscard]] Error current_error(const char* out_of_memory);

/// "rank 1/4 node-3": whose error it is.
[[nodiscard]] std::string where(const Job& job);

}  // namespace echelon::app
