#pragma once
#include <string>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

/// The answer of one `echelon doctor` command. The JSON schema is that of docs/doctor.md: fields are added,
/// never renamed or given another meaning, without a new number in `schema`.
class Report {
 public:
  /// `scope`: recipe, cluster or job.
  explicit Report(std::string scope) : scope_(std::move(scope)) {}

  void add(Finding finding);
  void add(std::vector<Finding> findings);

  /// The gravest of all.
  [[nodiscard]] Verdict verdict() const;
  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }

  /// Prints the report to standard output, as text or as one JSON object. Throws Error(kEnvironment) when
  /// that cannot be written, and, after it was, when it holds a fault: one line that names the checks.
  void finish(bool as_json, double elapsed_s) const;

 private:
  [[nodiscard]] std::vector<std::string> names_of(Verdict verdict) const;
  [[nodiscard]] std::string text(double elapsed_s) const;
  [[nodiscard]] std::string json(double elapsed_s) const;

  std::string scope_;
  std::vector<Finding> findings_;
};

}  // namespace echelon::app::doctor
