#pragma once
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/read/reader.h"
#include "comm/communicator.h"
#include "families/model_weights.h"
#include "model/generate/generate.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"

namespace echelon {

/// Where the ranks of a model compute.
struct InferencePlace {
  Communicator& comm;                       ///< between hosts
  Communicator* between_devices = nullptr;  ///< of tensors on `device`; null: `comm`
  at::Device device = at::kCPU;
};

/// Returns `model`, sharded over the ranks, with the weights of a checkpoint: fp32 whatever their stored
/// type, without gradients. A rank holds its slices, and whole weights only of the units that a pass
/// currently uses. The communicators must outlive the result. Collective. Throws Error(kCheckpoint) for a
/// tensor that is missing, damaged, or of another shape. Tensors that the checkpoint leaves out are read from
/// `base` (empty: the place that the checkpoint names).
[[nodiscard]] std::unique_ptr<ShardedModel> load_inference_model(const checkpoint::Reader& reader,
                                                                 std::unique_ptr<Model> model,
                                                                 const InferencePlace& place,
                                                                 const std::string& base = {});

/// Loads the weights of a Hugging Face folder in the place of a checkpoint's.
[[nodiscard]] std::unique_ptr<ShardedModel> load_inference_model(const families::ModelWeights& weights,
                                                                 std::unique_ptr<Model> model,
                                                                 const InferencePlace& place);

/// Does what generate() does for this rank's prompts (at least one). All ranks of `comm` step together until
/// the last sequence of any rank is complete. If `stop`, which may be null, is decided earlier, the result
/// must be discarded. Collective.
[[nodiscard]] std::vector<std::vector<std::int64_t>> generate_together(ShardedModel& model,
                                                                       const Batch& prompts,
                                                                       const GenerateOptions& options,
                                                                       Communicator& comm,
                                                                       AgreedStop* stop = nullptr);

}  // namespace echelon
