#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "app/engine/engine.h"

/// What the commands that compute with a trained model share. References must outlive the command.
namespace echelon::app {

/// Adds the model: the positional `checkpoint`, and --base.
void add_model_options(CLI::App& command, InferenceRequest& request);

/// Adds --device, and --ranks, which share the weights and `what`.
void add_rank_options(CLI::App& command, InferenceRequest& request, int& ranks, const std::string& what);

/// Starts `ranks` local ranks with this command line, if there are several. Else sets request.launch and runs
/// `as_rank` in this process. `ranks`: as local_ranks() gives them. Returns the exit code.
[[nodiscard]] int run_ranks(const CLI::App& command, int ranks, InferenceRequest& request,
                            const std::function<int()>& as_rank);

}  // namespace echelon::app
