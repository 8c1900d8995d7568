#pragma once
#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "base/error.h"

namespace echelon::app {

/// Runs `work` at the border of the engine, for its exported functions. Returns 0, or the code of the error
/// that ended `work`, with its text in `fault`. No exception leaves it.
template <class Work>
[[nodiscard]] int answer(std::string& fault, const Work& work) {
  try {
    work();
    return 0;
  } catch (const Error& error) {
    fault = error.what();
    return static_cast<int>(error.code());
  } catch (const c10::Error& error) {  // its what() has the stack
    fault = error.what_without_backtrace();
  } catch (const std::exception& error) {
    fault = error.what();
  }
  return static_cast<int>(Code::kEnvironment);
}

}  // namespace echelon::app
