#pragma once
#include "bootstrap/job.h"
#include "bootstrap/pmix_client.h"

namespace echelon {

/// A rank of an srun --mpi=pmix or mpirun step.
class PmixJob final : public Job {
 public:
  /// Joins the step. Throws Error(kEnvironment).
  PmixJob(const LaunchEnvironment& environment, double timeout_s);

  [[nodiscard]] std::vector<Blob> exchange(std::string_view name, const Blob& mine) override;
  void fence(std::string_view name) override;
  void abort(int exit_code, const std::string& reason) override;
  void finish() override;

 private:
  [[nodiscard]] std::string next_key();
  [[nodiscard]] std::vector<std::string> all_hosts();
  [[nodiscard]] std::vector<std::string> exchange_host_names();
  [[noreturn]] void report_missing(std::string_view name, const std::string& key) const;

  PmixClient client_;
  std::uint64_t round_ = 0;  ///< PMIx keys cannot be written twice, so each round has its own
};

}  // namespace echelon
