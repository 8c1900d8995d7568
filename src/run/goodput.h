#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/options/choice.h"
#include "run/deadline.h"

namespace echelon {

/// The uses of a job's time.
enum class Spent : std::uint8_t {
  kStart,     ///< before the first step and after the last
  kTrain,     ///< steps that later steps build on
  kValidate,  ///< and generating texts for it
  kStall,     ///< training waits for a save
  kLost,      ///< steps that were trained and not saved, and had to be trained again
  kIdle,      ///< after rank 0's exit, until all have exited
  kDetect,    ///< waiting for a lost peer, until that was noticed
  kLeave,     ///< after that, until all have exited
  kLaunch,    ///< of a restart in place: from then until its processes run
  kLoad,      ///< of a restart in place: from then until its first step
  kRedo,      ///< of a restart in place: steps that the starts before it had trained
};
inline constexpr std::size_t kSpentKinds = 11;
using SpentSeconds = std::array<double, kSpentKinds>;

/// The end of a start, as far as it is known.
enum class StartEnd : std::uint8_t { kRunning, kFinished, kStopped, kFailed, kKilled };
template <>
inline constexpr std::array<std::string_view, 5> kWords<StartEnd>{"running", "finished", "stopped", "failed",
                                                                  "killed"};

/// The record of a start that followed another one within the same allocation.
struct InPlace {
  double failed_s = 0;                ///< when ranks were lost, since 1970
  std::string cause;                  ///< one sentence
  std::vector<std::string> left_out;  ///< nodes of the start before
  std::vector<std::string> nodes;
  std::int64_t redo_until = 0;  ///< the last step that earlier starts trained
};

/// One start of a run and where its time went.
struct RunStart {
  std::string job;  ///< Slurm's number; empty: no Slurm
  std::int64_t restart = 0;
  std::int64_t ranks = 1;
  double began_s = 0;  ///< since 1970
  double ended_s = 0;
  StartEnd end = StartEnd::kRunning;
  std::int64_t first_step = 0;      ///< that it began with; 0 until that is known
  std::int64_t last_step = 0;       ///< that it trained
  std::int64_t saved_step = 0;      ///< of its newest checkpoint
  double until_saved_s = 0;         ///< of training, that of lost steps included, until saved_step
  SpentSeconds seconds{};           ///< sum to ended_s - began_s
  std::optional<InPlace> in_place;  ///< it followed the start before it within the same allocation
  Durations took;                   ///< its steps, saves and validations; the last known

  [[nodiscard]] double& operator[](Spent spent) { return seconds[static_cast<std::size_t>(spent)]; }
  [[nodiscard]] double operator[](Spent spent) const { return seconds[static_cast<std::size_t>(spent)]; }
  /// The run goes on from `step`: what this start trained after it is lost.
  void lose_after(std::int64_t step);
};

/// All starts of a run: the content of goodput.json.
struct Goodput {
  std::vector<RunStart> starts;

  /// Throws Error(kUsage) for anything but what to_json() writes.
  [[nodiscard]] static Goodput parse(const std::string& json);
  /// Writes all starts, their sums, and the share of the time that was training or validation.
  [[nodiscard]] std::string to_json() const;
  /// The content of logs/restarts.jsonl: a line for each restart in place; empty if there is none.
  [[nodiscard]] std::string restarts() const;
  /// "goodput 93.1 % of 512 s: start 12, train 470, ..."
  [[nodiscard]] std::string summary() const;
};

}  // namespace echelon
