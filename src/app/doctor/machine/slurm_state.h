#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

/// One record printed by Slurm's commands. A field that is missing or "(null)" reads as "".
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
  std::optional<std::string> mpi_types;  ///< srun --mpi=list; nothing if srun fails
};

/// Runs Slurm's commands, each for at most `deadline_s` seconds. Fills `state` if Slurm answers. Returns the
/// finding about Slurm itself.
[[nodiscard]] Finding ask_slurm(double deadline_s, std::optional<SlurmState>& state);

/// Parses lines "Key = value".
[[nodiscard]] SlurmRecord parse_settings(std::string_view text);
/// Parses one record per line: "Key=value Key=value ...". A value may contain blanks: it ends before the next
/// word of the form Name=.
[[nodiscard]] std::vector<SlurmRecord> parse_records(std::string_view text);
/// Converts "30 sec", "1-02:03:04", "02:03:04", "15:00" (minutes:seconds) or "90" (minutes) to seconds.
/// Returns nothing for other texts, such as UNLIMITED and NONE.
[[nodiscard]] std::optional<long> parse_seconds(std::string_view text);

}  // namespace echelon::app::doctor
