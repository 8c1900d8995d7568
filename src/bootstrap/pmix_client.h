#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/not_copied.h"
#include "bootstrap/job.h"
#include "bootstrap/launch_environment.h"

namespace echelon {

/// The PMIx calls that a job needs, each with a deadline, because some pairs of server and library never
/// answer. PMIx types stay in the source file. Not thread-safe.
class PmixClient : NotCopied {
 public:
  /// PMIx_Init on a helper thread, at most `timeout_s`. Throws Error(kEnvironment). After an expired deadline
  /// the helper thread stays inside PMIx_Init: the process can only report and exit.
  PmixClient(const LaunchEnvironment& environment, double timeout_s);
  ~PmixClient();

  [[nodiscard]] int rank() const;
  [[nodiscard]] std::string name_space() const;
  [[nodiscard]] double timeout_s() const { return timeout_s_; }

  /// Number of ranks of the job (PMIX_JOB_SIZE). Throws Error(kEnvironment).
  [[nodiscard]] int job_size() const;
  /// PMIX_HOSTNAME of a rank, or nothing where the server does not tell.
  [[nodiscard]] std::optional<std::string> host_of(int rank) const;

  /// Stores bytes under a key that was never used before, for all ranks, and hands them to the server.
  void publish(const std::string& key, const Blob& bytes);
  /// Waits until all ranks have arrived; with `collect` their published data travel along. Returns false if
  /// the deadline passed first. Throws Error(kEnvironment) for every other failure.
  [[nodiscard]] bool fence(bool collect, const std::string& doing);
  /// Returns the value that `rank` published, or nothing if none arrives within `wait_s` seconds.
  [[nodiscard]] std::optional<Blob> published(int rank, const std::string& key, double wait_s) const;

  /// Best effort: asks the server to end all ranks, waits a second at most.
  void abort(int exit_code, const std::string& reason);
  /// PMIx_Finalize. Throws Error(kEnvironment) where it fails or takes longer than the deadline.
  void finalize();

  /// "PMIx 4.2.2 (server 4.2.2rc2), Slurm job 12.0" and known bad pairs: the end of every message about a
  /// deadline.
  [[nodiscard]] std::string circumstances() const;

 private:
  struct Self;
  LaunchEnvironment environment_;
  double timeout_s_;
  std::shared_ptr<Self> self_;
};

/// Throws Error(kEnvironment) that says what to install where no PMIx can be loaded.
void require_pmix();

}  // namespace echelon
