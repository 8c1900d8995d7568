#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reads what Slurm's commands print.
namespace echelon {

/// One record that scontrol prints: the value of each field.
struct SlurmRecord {
  std::map<std::string, std::string> fields;

  /// A field that is missing or "(null)" reads as "".
  [[nodiscard]] std::string operator[](const std::string& field) const;
};

/// Parses lines "Key = value".
[[nodiscard]] SlurmRecord parse_slurm_settings(std::string_view text);
/// Parses "Key=value Key=value ...". A value may contain blanks: it ends before the next word of the form
/// Name=. Of a name that comes again, the first value counts.
[[nodiscard]] SlurmRecord parse_slurm_record(const std::string& text);
/// The same, one record per line.
[[nodiscard]] std::vector<SlurmRecord> parse_slurm_records(std::string_view text);
/// Converts "30 sec", "1-02:03:04", "02:03:04", "15:00" (minutes:seconds) or "90" (minutes) to seconds.
/// Returns nothing for other texts, such as UNLIMITED and NONE.
[[nodiscard]] std::optional<std::int64_t> slurm_seconds(const std::string& text);

}  // namespace echelon
