#pragma once
#include <functional>

#include "bootstrap/job.h"
#include "train/eval/inference_model.h"
#include "train/options.h"

namespace echelon::app {

/// Runs `body` as one rank of a job that only computes with a model, and returns the exit code. An error is
/// reported and ends the other ranks, too.
[[nodiscard]] int infer(Launch launch, TrainDevice device,
                        const std::function<void(const InferencePlace&)>& body);

}  // namespace echelon::app
