#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "data/loader.h"
#include "shard/sharded_model.h"

namespace echelon::test::deferred {

/// What is trained: a small model of a kind, and micro-batches that suit it.
struct Subject {
  ModelOptions model;
  std::vector<SampleBatch> batches;   ///< two micro-batches a step
  std::vector<std::string> frozen{};  ///< names of parameters
};
/// `kind` as in ModelOptions; "llama" has several sequences in a sample.
[[nodiscard]] Subject small(const std::string& kind);

/// This rank's weights after some steps of gradient descent, on the host. Within a step the host must wait
/// for no copy.
[[nodiscard]] std::vector<at::Tensor> train(Communicator& comm, at::Device device, const Subject& subject,
                                            const EngineOptions& options);
/// On the device, whose communicator works in a stream of its own.
[[nodiscard]] std::vector<at::Tensor> train_on_device(const Subject& subject, const EngineOptions& options);

}  // namespace echelon::test::deferred
