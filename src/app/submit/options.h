#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/options/choice.h"

namespace echelon::submit {

enum class ContainerRuntime : std::uint8_t { kPyxis, kApptainer };
}  // namespace echelon::submit

namespace echelon {
template <>
inline constexpr std::array<std::string_view, 2> kWords<submit::ContainerRuntime>{"pyxis", "apptainer"};
}  // namespace echelon

namespace echelon::submit {

/// The command line of `echelon submit`, unchecked. An empty text or a 0 means: not given.
struct Options {
  std::string recipe;
  std::vector<std::string> overrides;  ///< may contain {task}, the number of the array's task

  std::int64_t nodes = 1;
  std::int64_t tasks_per_node = 0;  ///< not given: one per GPU, or 1 without GPUs
  std::string gpus_per_node;        ///< "8" or "h100:8"
  std::string gres;                 ///< "gpu:h100:8,lustre"

  std::string partition;
  std::string account;
  std::string qos;
  std::string constraint;
  std::string exclude;
  std::string time = "24:00:00";
  std::int64_t stop_before_s = -1;  ///< seconds from the stop signal to the end of `time`; -1: not given
  std::int64_t max_requeues = 100;  ///< 0: the job is never requeued
  std::int64_t spare_nodes = 0;     ///< beside `nodes`; they take the place of lost ones
  std::int64_t max_restarts = 20;   ///< in place, in one start of the job; 0: never
  std::int64_t max_same_step =
      3;                   ///< failures in a row at one step that end the job; 0: any number is forgiven
  std::string job_name;    ///< not given: run.name
  std::string array;       ///< "0-9%1", or a sweep: "optim.lr=1e-3,3e-3"
  std::string dependency;  ///< "afterok:17"

  std::string container_image;
  std::string container_runtime;  ///< a word of ContainerRuntime; not given: chosen by the image's name
  std::string container_mounts;   ///< "/data:/data:ro,/scratch:/scratch", added to those of job and run
  /// What a rank runs; not given: this program; in a container, `echelon` from its PATH.
  std::string program;
};

}  // namespace echelon::submit
