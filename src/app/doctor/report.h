#pragma once
#include <string>
#include <vector>

#include "app/doctor/finding.h"
#include "base/steady_time.h"

namespace echelon::app::doctor {

/// The result of one `echelon doctor` command. docs/doctor.md describes the JSON. Without a new number in
/// `schema`, fields may be added, but not renamed or changed in meaning.
class Report {
 public:
  /// `scope`: recipe, cluster or job.
  explicit Report(std::string scope) : scope_(std::move(scope)) {}

  void add(Finding finding);
  void add(std::vector<Finding> findings);

  /// Prints the report to standard output, as text or as one JSON object. Throws Error(kEnvironment) if it
  /// cannot be written. After printing, also throws Error(kEnvironment) if the report contains a fault: one
  /// line that names the checks.
  void finish(bool as_json) const;

 private:
  [[nodiscard]] std::vector<std::string> names_of(Verdict verdict) const;
  [[nodiscard]] std::string text(double elapsed_s) const;
  [[nodiscard]] std::string json(double elapsed_s) const;

  std::string scope_;
  double began_s_ = steady_now_s();
  std::vector<Finding> findings_;
};

}  // namespace echelon::app::doctor
