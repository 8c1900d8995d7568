#pragma once
#include <functional>

#include "app/engine/engine.h"
#include "train/eval/inference_model.h"

namespace echelon::app {

/// Runs `body` as one rank of a job that only computes with a model, and returns the exit code. An error is
/// reported and ends the other ranks, too.
[[nodiscard]] int infer(const InferenceRequest& request,
                        const std::function<void(const InferencePlace&)>& body);

}  // namespace echelon::app
