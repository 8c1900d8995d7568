#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// The times at which a run ran, and the uses of its time.
namespace echelon::report {

/// One start of a run, as goodput.json has it.
struct Start {
  std::string job;  ///< Slurm's number; empty: no Slurm
  std::int64_t restart = 0;
  std::int64_t ranks = 0;
  double began_s = 0;  ///< since 1970
  double ended_s = 0;
  std::string end;  ///< "running", "finished", ...
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t saved_step = 0;
  bool in_place = false;     ///< followed an earlier one within the same allocation
  bool from_memory = false;  ///< went on from a checkpoint in the memory of nodes
  std::vector<std::pair<std::string, double>> seconds;  ///< by what they were spent on
  std::string cause;                                    ///< of its end; empty: not known
};

/// A start of a job as its batch script noted it.
struct NotedStart {
  std::string job;
  double began_s = 0;
  double ended_s = 0;  ///< 0: no end is noted
  std::int64_t code = 0;
};

/// A part of a total, and its share.
struct Part {
  std::string name;
  double seconds = 0;
  std::int64_t per_mille = 0;
};

/// All seconds for which the run's jobs held nodes. The shares of `parts` sum to exactly 1000 per mille.
struct Account {
  std::vector<Part> parts;  ///< in the order of goodput.json; then kUnrecorded, if any
  double allocated_s = 0;
  double queued_s = 0;  ///< between starts of the same job; not part of allocated_s
  [[nodiscard]] std::int64_t good_per_mille() const;  ///< training and validation
};
/// The part for seconds without a record in goodput.json, though a job's script noted them or they lie in a
/// start.
inline constexpr const char* kUnrecorded = "unrecorded";

/// Integers that sum to `total` and are nearest to the shares of `parts` (none below 0): each is rounded
/// down, and those with the largest remainders get what is left. All 0 when the parts sum to 0.
[[nodiscard]] std::vector<std::int64_t> largest_remainders(const std::vector<double>& parts,
                                                           std::int64_t total);

[[nodiscard]] Account account_of(const std::vector<Start>& starts, const std::vector<NotedStart>& noted);

}  // namespace echelon::report
