#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/not_copied.h"

namespace echelon {

/// Watches standard output of a command that may run with --json: knows whether anything was printed. Create
/// it before the first output.
class MachineOutput : NotCopied {
 public:
  explicit MachineOutput(bool json);
  /// `words`: the command line behind the program's name.
  explicit MachineOutput(const std::vector<std::string>& words);
  ~MachineOutput();

  /// With --json, prints {"error": {"code": .., "message": ".."}} if the command printed no report of its
  /// own. In a job only rank 0 prints it. No rank prints an error that is reported already.
  void report(const Error& error);

 private:
  class Watch;
  bool wanted_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace echelon
