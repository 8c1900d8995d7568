#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/job.h"
#include "model/generate/options.h"
#include "recipe/load.h"

/// The interface of libechelon_engine.so to `echelon`. The functions report their own errors, or store them
/// in the result, and return the exit code. No exception leaves the library.
namespace echelon::app {

struct TrainRequest {
  LoadedRecipe loaded;
  Launch launch = Launch::kSingle;
};

struct SampleRequest {
  std::filesystem::path checkpoint;  ///< a step folder or a run folder
  std::vector<std::string> prompts;
  GenerateOptions search;  ///< without end_id and first_prompt, which the engine sets
  Launch launch = Launch::kSingle;
};

struct PlanRequest {
  LoadedRecipe loaded;
  int ranks = 1;
  int ranks_per_node = 1;
  bool units = false;  ///< print the tree of units
};

/// Faults of a recipe that are found only when its model is built.
struct ModelFaults {
  std::vector<std::pair<std::string, std::string>> faults;  ///< key, one line that describes the fault
  /// Why the model could not be built; then nothing was checked.
  std::string trouble;
};

struct MatmulRequest {
  Job* job = nullptr;
  double seconds = 1;  ///< duration of the measurement, simultaneous on all ranks
};

struct MatmulResult {
  double flops = 0;    ///< FLOP/s of this rank
  std::string device;  ///< "the CPU", or the GPU's name
  std::string fault;   ///< why there is no rate; then the exit code is nonzero
};

using TrainFunction = int(const TrainRequest&);
using SampleFunction = int(const SampleRequest&);
using PlanFunction = int(const PlanRequest&);
using CheckModelFunction = int(const Recipe&, ModelFaults&);
using MatmulFunction = int(const MatmulRequest&, MatmulResult&);
using VersionFunction = const char*();

}  // namespace echelon::app

extern "C" {
echelon::app::TrainFunction echelon_engine_train;
echelon::app::SampleFunction echelon_engine_sample;
echelon::app::PlanFunction echelon_engine_plan;
echelon::app::CheckModelFunction echelon_engine_check_model;
echelon::app::MatmulFunction echelon_engine_matmul;
echelon::app::VersionFunction echelon_engine_versions;  ///< one line: libtorch and the instruction set used
}
