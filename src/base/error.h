#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/str.h"

namespace echelon {

/// The kind of a command's failure; the value is the process's exit code (docs/exit_codes.md).
enum class Code {
  kUsage = 2,        ///< bad command line or recipe
  kEnvironment = 3,  ///< PMIx, MPI, NCCL, library, device, or a file of the run that cannot be written
  kData = 4,         ///< training data or tokenizer
  kCheckpoint = 5,   ///< checkpoint cannot be written, read or trusted
  kTraining = 6,     ///< non-finite beyond policy
  kPeer = 7,         ///< another rank died, hung or disagrees
  kInternal = 70,    ///< a fault of Echelon itself
  kRequeue = 85,     ///< stopped early on purpose: requeue me
};

/// The one exception type. Its text says what failed, where, what was expected and what to do, in one line.
class Error : public std::runtime_error {
 public:
  /// The text is all that follows `code`, joined by str().
  template <class First, class... Rest>
  Error(Code code, const First& first, const Rest&... rest)
      : std::runtime_error(str(first, rest...)), code_(code) {}
  /// Returns the error of a failure that is reported already, here or by another rank. It ends the process
  /// with `code` and is not printed.
  [[nodiscard]] static Error already_reported(Code code) {
    Error error(code, "already reported");
    error.reported_ = true;
    return error;
  }
  /// Returns the error of a failed system call that says nothing about the content of a file: a read error,
  /// missing permission, a server that does not answer.
  [[nodiscard]] static Error of_system(Code code, const std::string& text) {
    Error error(code, text);
    error.of_system_ = true;
    return error;
  }
  /// Returns the error of a call that only a fault of Echelon makes. `parts` say what is wrong.
  template <class... Parts>
  [[nodiscard]] static Error internal(const Parts&... parts) {
    return {Code::kInternal, "internal error: ", parts..., "; this is a fault of Echelon: please report it"};
  }
  /// Returns this error with "<doing>: " in front of its text.
  [[nodiscard]] Error in(std::string_view doing) const {
    Error error(code_, doing, ": ", what());
    error.of_system_ = of_system_;
    return error;
  }
  [[nodiscard]] Code code() const noexcept { return code_; }
  [[nodiscard]] bool is_reported() const noexcept { return reported_; }
  [[nodiscard]] bool is_of_system() const noexcept { return of_system_; }

 private:
  Code code_;
  bool reported_ = false;
  bool of_system_ = false;
};

/// Runs `body`; an Error that leaves it gains "<doing>: " in front, unless it is reported already. For module
/// borders, not for every line.
template <class Body>
decltype(auto) in_context(std::string_view doing, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& e) {
    if (e.is_reported()) throw;
    throw e.in(doing);
  }
}

}  // namespace echelon
