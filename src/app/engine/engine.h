#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/job.h"
#include "model/generate/options.h"
#include "recipe/load.h"

/// What `echelon` calls in libechelon_engine.so. The functions report their own errors (or give them in the
/// result) and return the exit code: no exception crosses the library's border.
namespace echelon::app {

struct TrainRequest {
  LoadedRecipe loaded;
  Launch launch = Launch::kSingle;
};

struct SampleRequest {
  std::filesystem::path checkpoint;  ///< step folder or run folder
  std::vector<std::string> prompts;
  GenerateOptions search;  ///< all but end_id and first_prompt, which the checkpoint and the prompts give
  Launch launch = Launch::kSingle;
};

struct PlanRequest {
  LoadedRecipe loaded;
  int ranks = 1;
  int ranks_per_node = 1;
  bool units = false;  ///< print the tree of units
};

/// What of a recipe only the parts of its model tell to be wrong.
struct ModelFaults {
  std::vector<std::pair<std::string, std::string>> faults;  ///< key; one line about it
  std::string trouble;                                      ///< why the model cannot be looked at
};

struct MatmulRequest {
  Job* job = nullptr;
  double seconds = 1;  ///< on every rank, all at the same time
};

struct MatmulResult {
  double flops = 0;    ///< of this rank, a second
  std::string device;  ///< "the CPU", or the GPU's name
  std::string fault;   ///< why there is no rate; then the exit code is not 0
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
