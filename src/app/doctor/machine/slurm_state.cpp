#include "app/doctor/machine/slurm_state.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/number.h"
#include "base/process/program.h"
#include "base/str.h"

namespace echelon::app::doctor {
namespace {

/// Length of the name in a word "Name=value"; 0 if the word has another form.
std::size_t field_name_length(const std::string& word) {
  const auto equal = word.find('=');
  if (equal == word.npos || equal == 0) return 0;
  const bool name = std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equal), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '/';
  });
  return name ? equal : 0;
}

SlurmRecord parse_record(const std::string& line) {
  SlurmRecord record;
  std::string field;
  std::string value;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t name = field_name_length(word);
    if (name == 0) {
      value += " " + word;
      continue;
    }
    if (!field.empty()) record.set(field, value);
    field = word.substr(0, name);
    value = word.substr(name + 1);
  }
  if (!field.empty()) record.set(field, value);
  return record;
}

}  // namespace

std::string SlurmRecord::operator[](const std::string& field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() || found->second == "(null)" ? "" : found->second;
}

SlurmRecord parse_settings(std::string_view text) {
  SlurmRecord record;
  for (const std::string& line : split(text, '\n')) {
    const auto equal = line.find('=');
    if (equal == line.npos) continue;
    record.set(trimmed(line.substr(0, equal)), trimmed(line.substr(equal + 1)));
  }
  return record;
}

std::vector<SlurmRecord> parse_records(std::string_view text) {
  std::vector<SlurmRecord> records;
  for (const std::string& line : split(text, '\n')) {
    SlurmRecord record = parse_record(line);
    if (!record.empty()) records.push_back(std::move(record));
  }
  return records;
}

std::optional<long> parse_seconds(std::string_view text) {
  std::vector<long> numbers;
  std::string separators;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  while (next != end) {
    long number = 0;
    const auto [stop, fault] = std::from_chars(next, end, number);
    if (fault != std::errc{} || number < 0 || number > 100'000'000) return std::nullopt;
    numbers.push_back(number);
    next = stop;
    if (next == end || *next == ' ') break;
    if (*next != '-' && *next != ':') return std::nullopt;
    separators += *next++;
  }
  const bool seconds = next != end && std::string_view(next, end) == " sec";
  if (seconds && separators.empty() && numbers.size() == 1) return numbers[0];
  if (next != end || numbers.empty() || numbers.size() != separators.size() + 1) return std::nullopt;
  constexpr long kMinute = 60;
  constexpr long kHour = 3600;
  constexpr long kDay = 86400;
  if (separators.empty()) return numbers[0] * kMinute;
  if (separators == ":") return numbers[0] * kMinute + numbers[1];
  if (separators == "::") return numbers[0] * kHour + numbers[1] * kMinute + numbers[2];
  if (separators[0] != '-' || separators.find('-', 1) != separators.npos || separators.size() > 3)
    return std::nullopt;
  long sum = numbers[0] * kDay;
  for (std::size_t i = 1, unit = kHour; i < numbers.size(); ++i, unit /= 60)
    sum += numbers[i] * static_cast<long>(unit);
  return sum;
}

Finding ask_slurm(double deadline_s, std::optional<SlurmState>& state) {
  const ProgramRun config = run_program({"scontrol", "show", "config"}, deadline_s);
  if (!config.found) {
    return fault(
        "slurm", "there is no Slurm here: scontrol is not in PATH",
        "run this on a login node; on a single machine no Slurm is needed (echelon train --ranks N)");
  }
  SlurmState found;
  found.settings = parse_settings(config.out);
  if (!config.good() || found.settings["SLURM_VERSION"].empty()) {
    return fault("slurm",
                 config.good() ? "scontrol show config shows no SLURM_VERSION" : config.trouble("scontrol"),
                 "scontrol ping shows whether slurmctld is up; check SLURM_CONF and munge on this machine");
  }
  found.partitions =
      parse_records(run_program({"scontrol", "--oneliner", "show", "partition"}, deadline_s).out);
  found.nodes = parse_records(run_program({"scontrol", "--oneliner", "show", "nodes"}, deadline_s).out);
  const ProgramRun mpi = run_program({"srun", "--mpi=list"}, deadline_s);
  if (mpi.good()) found.mpi_types = mpi.out + mpi.err;
  const double milliseconds = std::round(config.seconds * 1000);
  Finding answer =
      ok("slurm", str("Slurm ", found.settings["SLURM_VERSION"], " answers in ", milliseconds, " ms"));
  answer.values = {{"version", found.settings["SLURM_VERSION"]}, {"answer_ms", milliseconds}};
  state = std::move(found);
  return answer;
}

}  // namespace echelon::app::doctor
