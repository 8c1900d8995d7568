#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/options/choice.h"

namespace echelon {

/// What a starting run continues from.
enum class Resume : std::uint8_t {
  kAuto,   ///< the newest committed checkpoint, if any
  kNever,  ///< refuse a run folder that has one
  kMust,   ///< refuse a run folder that has none
};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Resume>{"auto", "never", "must"};

/// What is made of the last step.
enum class Consolidate : std::uint8_t { kNone, kHdf5, kSafetensors };
template <>
inline constexpr std::array<std::string_view, 3> kWords<Consolidate>{"none", "hdf5", "safetensors"};

/// Recipe section `checkpoint`.
struct CheckpointOptions {
  std::int64_t every_steps = 1000;  ///< 0: not by steps
  double every_minutes = 0;         ///< 0: not by time
  bool auto_interval = false;       ///< by Young's and Daly's rule from what a save costs
  double mean_time_to_failure_hours = 24;
  std::int64_t keep_last = 3;         ///< older committed ones are removed; 0 keeps all
  std::int64_t keep_every_steps = 0;  ///< of the older ones those of every so many steps stay; 0: none
  bool keep_best = false;             ///< save and keep the step of the lowest validation loss
  bool async = true;                  ///< training goes on while a save is written
  std::int64_t max_failures = 3;      ///< so many failed saves in a row end the run
  double max_write_mb_per_s = 0;      ///< a rank; 0: as fast as the disk
  std::int64_t timeout_s = 1800;      ///< for one save; then it has failed

  std::int64_t memory_every_steps = 0;  ///< saves to the nodes' memory; 0: none
  std::string memory_dir = "/dev/shm";
  double memory_limit_gib = 0;  ///< of a node, for two saves with copies; 0: what it has left

  Resume resume = Resume::kAuto;
  std::string init_from;      ///< checkpoint whose weights a new run starts from; empty: none
  bool init_partial = false;  ///< init_from: take what fits of another model
  Consolidate consolidate = Consolidate::kNone;
};

/// How many proven commits keep_last asks for: at least two; 0: all stay.
[[nodiscard]] constexpr std::int64_t commits_to_keep(std::int64_t keep_last) {
  constexpr std::int64_t kAlwaysKept = 2;
  return keep_last == 0 ? 0 : std::max(keep_last, kAlwaysKept);
}

}  // namespace echelon
