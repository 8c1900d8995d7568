#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

/// What Slurm's own commands say, as fields by name. A field that is not there, or "(null)", is "".
class SlurmRecord {
 public:
  [[nodiscard]] std::string operator[](const std::string& field) const;
  void set(const std::string& field, std::string value) { fields_[field] = std::move(value); }
  [[nodiscard]] bool empty() const { return fields_.empty(); }

 private:
  std::map<std::string, std::string> fields_;
};

struct SlurmState {
  SlurmRecord settings;                  ///< scontrol show config
  std::vector<SlurmRecord> partitions;   ///< scontrol --oneliner show partition
  std::vector<SlurmRecord> nodes;        ///< scontrol --oneliner show nodes
  std::optional<std::string> mpi_types;  ///< srun --mpi=list; nothing where srun does not answer
};

/// Asks Slurm, each command for at most `deadline_s`. Returns what was found about Slurm itself and, where it
/// answers, fills `state`.
[[nodiscard]] Finding ask_slurm(double deadline_s, std::optional<SlurmState>& state);

/// Lines "Key   = value".
[[nodiscard]] SlurmRecord parse_settings(std::string_view text);
/// One record a line, "Key=value Key=value ..."; a value goes on to the next word that has a '=' behind a
/// name.
[[nodiscard]] std::vector<SlurmRecord> parse_records(std::string_view text);
/// "30 sec", "1-02:03:04", "02:03:04", "15:00" (minutes and seconds) or "90" (minutes) in seconds; nothing
/// for UNLIMITED, NONE and what is none of these.
[[nodiscard]] std::optional<long> parse_seconds(std::string_view text);

}  // namespace echelon::app::doctor
