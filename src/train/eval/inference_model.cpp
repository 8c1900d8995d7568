#include "train/eval/inference_model.h"

#include "base/error.h"
#include "base/str.h"
#include "comm/agree.h"
#include "comm/reduce_fields.h"
#include "train/state_tensors.h"

namespace echelon {
namespace {

/// Summed over ranks before each token.
struct TokenSums {
  double unfinished = 0;  ///< ranks with a sequence that is not complete
  double stop_votes = 0;
};

}  // namespace

std::unique_ptr<ShardedModel> load_inference_model(const checkpoint::Reader& reader,
                                                   std::unique_ptr<Model> model, Communicator& comm) {
  auto sharded =
      std::make_unique<ShardedModel>(std::move(model), comm, EngineOptions{.trains = false}, 0, at::kCPU);
  agree(comm, "load weights", [&] {
    in_context(str("checkpoint '", reader.folder().string(), "'"), [&] {
      if (const WeightMatch match = match_weights(reader, *sharded); !match.whole())
        throw Error(Code::kCheckpoint, str("its weights do not match its recipe's model: ", describe(match)));
      load_weights(reader, *sharded);
    });
  });
  return sharded;
}

std::vector<std::vector<std::int64_t>> generate_together(ShardedModel& model, const Batch& prompts,
                                                         const GenerateOptions& options, Communicator& comm,
                                                         AgreedStop* stop) {
  const auto any_unfinished = [&comm, stop](bool unfinished) {
    TokenSums sums{.unfinished = unfinished ? 1.0 : 0.0, .stop_votes = stop != nullptr ? stop->vote() : 0.0};
    all_reduce_fields(comm, sums, {&TokenSums::unfinished, &TokenSums::stop_votes}, ReduceOp::kSum,
                      "generation");
    if (stop != nullptr && stop->decide(sums.stop_votes)) return false;
    return sums.unfinished > 0;
  };
  const auto decoder = model.decoder(prompts);
  return generate(*decoder, prompts.samples, options, any_unfinished);
}

}  // namespace echelon
