#include "train/eval/inference_model.h"

#include "base/error.h"
#include "base/files/disk.h"
#include "base/str.h"
#include "base/terminal/progress_bar.h"
#include "comm/agree.h"
#include "comm/reduce_fields.h"
#include "train/weights/initial_weights.h"
#include "train/weights/outside_base.h"

namespace echelon {
namespace {

/// Summed over ranks before each token.
struct TokenSums {
  double unfinished = 0;  ///< ranks with a sequence that is not complete
  double stop_votes = 0;
};

std::unique_ptr<ShardedModel> without_weights(std::unique_ptr<Model> model, const InferencePlace& place) {
  Communicator& between = place.between_devices != nullptr ? *place.between_devices : place.comm;
  return std::make_unique<ShardedModel>(std::move(model), between, EngineOptions{.trains = false}, 0,
                                        place.device);
}

}  // namespace

std::unique_ptr<ShardedModel> load_inference_model(const families::ModelWeights& weights,
                                                   std::unique_ptr<Model> model,
                                                   const InferencePlace& place) {
  const ProgressBar bar("loading the weights");
  auto sharded = without_weights(std::move(model), place);
  agree_at_length(
      place.comm, "load weights", [&] { load_weights(weights, *sharded); }, fs::bytes_read);
  return sharded;
}

std::unique_ptr<ShardedModel> load_inference_model(const checkpoint::Reader& reader,
                                                   std::unique_ptr<Model> model, const InferencePlace& place,
                                                   const std::string& base) {
  const ProgressBar bar("loading the weights");
  auto sharded = without_weights(std::move(model), place);
  const std::string what = str("checkpoint '", reader.folder().string(), "'");
  std::optional<checkpoint::BaseNote> left_out;
  const auto load = [&] {
    in_context(what, [&] {
      left_out = checkpoint::base_note_of(reader);
      if (!base.empty() && !left_out) throw Error(Code::kUsage, "it holds all of its model; remove --base");
      if (const WeightMatch match = match_weights(reader, left_out, *sharded); !match.whole())
        throw Error(Code::kCheckpoint, "its weights do not match its recipe's model: ", describe(match));
      load_weights(reader, *sharded);
    });
  };
  agree_at_length(place.comm, "load weights", load, fs::bytes_read);
  if (left_out) {
    in_context(what, [&] {
      load_base(*left_out, {{base.empty() ? left_out->folder : base}, "name its folder with --base"},
                *sharded, place.comm);
    });
  }
  return sharded;
}

std::vector<std::vector<std::int64_t>> generate_together(ShardedModel& model, const Batch& prompts,
                                                         const GenerateOptions& options, Communicator& comm,
                                                         AgreedStop* stop) {
  const auto any_unfinished = [&comm, stop](bool unfinished) {
    TokenSums sums{.unfinished = unfinished ? 1.0 : 0.0, .stop_votes = stop != nullptr ? stop->vote() : 0.0};
    sum_fields(comm, sums, "generation");
    if (stop != nullptr && stop->decide(sums.stop_votes)) return false;
    return sums.unfinished > 0;
  };
  const auto decoder = model.decoder(prompts);
  return generate(*decoder, prompts.samples, options, any_unfinished);
}

}  // namespace echelon
