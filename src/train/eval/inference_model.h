#pragma once
#include <memory>
#include <vector>

#include "checkpoint/read/reader.h"
#include "comm/communicator.h"
#include "model/generate/generate.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"

namespace echelon {

/// `model` with the weights of a checkpoint in host memory, for use without training: fp32 whatever type they
/// were kept in, no gradients. Every rank of `comm`, which outlives the result, holds its slice of every
/// layer and of the others' no more than a pass needs at a time. Collective. Throws Error(kCheckpoint) for a
/// tensor that is missing, damaged, or of another shape.
[[nodiscard]] std::unique_ptr<ShardedModel> load_inference_model(const checkpoint::Reader& reader,
                                                                 std::unique_ptr<Model> model,
                                                                 Communicator& comm);

/// As generate() for this rank's prompts, at least one, while the other ranks of `comm` continue theirs: all
/// step until the last one is done, or until `stop` (may be null) is decided: what there is then is of no
/// use. Collective.
[[nodiscard]] std::vector<std::vector<std::int64_t>> generate_together(ShardedModel& model,
                                                                       const Batch& prompts,
                                                                       const GenerateOptions& options,
                                                                       Communicator& comm,
                                                                       AgreedStop* stop = nullptr);

}  // namespace echelon
