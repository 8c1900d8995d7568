#pragma once

#include "base/not_copied.h"

namespace echelon {

/// SIGUSR1 asks a running job to log its state (memory, time per unit); training goes on. Before and after,
/// `echelon train` ignores it.
class ReportRequest : NotCopied {
 public:
  ReportRequest();   ///< installs the handler
  ~ReportRequest();  ///< restores the previous one
  /// True once for each request that came.
  [[nodiscard]] bool take();
};

}  // namespace echelon
