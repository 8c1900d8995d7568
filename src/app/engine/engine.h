#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/log.h"
#include "bootstrap/job.h"
#include "comm/communicator.h"
#include "data/chat/chat_options.h"
#include "data/tasks/options.h"
#include "forecast/rehearsed.h"
#include "model/generate/options.h"
#include "profile/options.h"
#include "recipe/load.h"
#include "train/options.h"

/// The interface of libechelon_engine.so to `echelon`. The functions report their own errors, or store them
/// in the result, and return the exit code. No exception leaves the library.
namespace echelon::app {

struct TrainRequest {
  LoadedRecipe loaded;
  Launch launch = Launch::kSingle;
  ProfileRange profile;
  log::Console console = log::Console::kUsual;  ///< the engine's log is another one than the program's
};

/// A conversation with a model through its chat template.
struct ChatRequest {
  data::ChatOptions options;  ///< template_file, variables and date
  std::string system;         ///< text of the system's turn; empty: none
};

/// A trained model, and the ranks that compute with it.
struct InferenceRequest {
  std::filesystem::path checkpoint;  ///< a step folder, a run folder, or a Hugging Face folder
  std::string base;                  ///< of adapters, instead of where the checkpoint says; empty: there
  TrainDevice device = TrainDevice::kAuto;
  Launch launch = Launch::kSingle;
  bool json = false;  ///< the result, or an error, is one JSON value
};

struct SampleRequest : InferenceRequest {
  std::vector<std::string> prompts;   ///< with `chat`, each a user's turn; empty: lines of standard input
  std::string prompt_file;            ///< whose lines are the prompts; empty: they are of the command line
  std::optional<ChatRequest> chat{};  ///< none: prompts are continued as they are
  GenerateOptions search;             ///< without end_ids and first_prompt, which the engine sets
};

struct EvaluateRequest : InferenceRequest {
  EvaluationOptions tasks;
};

/// Faults of a recipe that are found only when its model is built: key, one line that describes the fault.
using ModelFaults = std::vector<std::pair<std::string, std::string>>;

struct MatmulResult {
  double flops = 0;    ///< FLOP/s of this rank
  std::string device;  ///< "the CPU", or the GPU's name
  std::string fault;   ///< why there is no rate; then the exit code is nonzero
};

/// Flattened values by the name of their weight.
using Tensors = std::map<std::string, std::vector<float>>;

/// What training leaves.
struct Trained {
  std::vector<double> loss;  ///< of each step
  std::vector<double> grad_norm;
  std::vector<double> lr;
  Tensors weights;   ///< after the last step
  Tensors averages;  ///< of weights, with optim.ema_decay
};
/// Training of one process as the reference has it (src/reference).
struct ReferenceResult : Trained {
  Tensors gradients;          ///< of the last step, before clipping
  Tensors largest_gradients;  ///< of each element over all updates, as absolute values
};

using TrainFunction = int(const TrainRequest&);
using SampleFunction = int(const SampleRequest&);
using EvaluateFunction = int(const EvaluateRequest&);
// `fault`: why there is no result; then the exit code is nonzero.
/// Rehearses rank 0, with the code for GPUs if `gpu`; `threads`: compute threads of a rank.
using RehearseFunction = int(const Recipe&, const forecast::JobShape&, bool gpu, int threads,
                             forecast::Rehearsed&, std::string& fault);
using CheckModelFunction = int(const Recipe&, ModelFaults&, std::string& fault);
/// Trains from `weights`. `type`: of forward and backward, the weights are kept in fp64; `left_out`: steps
/// that update nothing, none beyond its end.
using ReferenceFunction = int(const Recipe&, const Tensors& weights, DType type,
                              const std::vector<bool>& left_out, ReferenceResult&, std::string& fault);
/// Measures for `seconds` on all ranks at once. Collective.
using MatmulFunction = int(Job&, double seconds, MatmulResult&);
/// Measures what CPU ranks need for operations and collectives, all ranks at once. Collective. The caller's
/// communicator is of all ranks: the engine's copy of the library must not start MPI a second time.
/// `profile`: on rank 0, a file for `echelon plan --gpu`.
using CalibrateFunction = int(Job&, Communicator&, std::string& profile, std::string& fault);
using VersionFunction = const char*();

}  // namespace echelon::app

extern "C" {
echelon::app::TrainFunction echelon_engine_train;
echelon::app::SampleFunction echelon_engine_sample;
echelon::app::EvaluateFunction echelon_engine_evaluate;
echelon::app::RehearseFunction echelon_engine_rehearse;
echelon::app::CheckModelFunction echelon_engine_check_model;
echelon::app::ReferenceFunction echelon_engine_reference;
echelon::app::MatmulFunction echelon_engine_matmul;
echelon::app::CalibrateFunction echelon_engine_calibrate;
echelon::app::VersionFunction echelon_engine_versions;  ///< one line: libtorch and the instruction set used
}
