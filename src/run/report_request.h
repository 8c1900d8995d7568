#pragma once

namespace echelon {

/// SIGUSR1 asks a running job to log its state (memory, time per unit); training goes on. Before and after,
/// `echelon train` ignores it.
class ReportRequest {
 public:
  ReportRequest();   ///< installs the handler
  ~ReportRequest();  ///< restores the previous one
  ReportRequest(const ReportRequest&) = delete;
  ReportRequest& operator=(const ReportRequest&) = delete;
  /// True once for each request that came.
  [[nodiscard]] bool take();
};

}  // namespace echelon
