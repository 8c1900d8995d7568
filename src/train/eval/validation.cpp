#include "train/eval/validation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "comm/reduce_fields.h"
#include "data/batch_stream.h"
#include "train/batch_tensors.h"

namespace echelon {
namespace {

struct ValidationSums {
  double loss = 0;
  double targets = 0;  ///< targets that are not ignored
  double correct = 0;  ///< right predictions, for classifiers
};

}  // namespace

std::optional<ValidationResult> validate(ShardedModel& model, const Loader& samples,
                                         const DataOptions& options, const TrainOptions& train,
                                         Communicator& comm, AgreedStop& stop) {
  const std::int64_t all = samples.samples_per_epoch();
  const std::int64_t per_pass = train.micro_batch_size * comm.size();
  // Every rank takes part in every pass, because each pass gathers units. Samples beyond the end wrap around
  // to the beginning, and are ignored.
  std::int64_t end = options.validation.batches * train.global_batch_size;
  if (options.validation.batches == 0 || end > all) end = all;
  BatchStream stream(samples, {comm.rank() * train.micro_batch_size, train.micro_batch_size, per_pass},
                     options.workers, options.prefetch_batches);
  ValidationSums sums;
  bool classes = false;
  for (std::int64_t first = 0; first < end; first += per_pass) {
    stop.begin_look();
    SampleBatch batch = stream.next();
    ignore_from(batch, end);
    const Score score = model.evaluate(to_tensors(batch, model.device()));
    sums.loss += score.loss.item<double>();
    sums.targets += static_cast<double>(counted_targets(batch));
    classes = score.correct.defined();
    if (classes) sums.correct += score.correct.item<double>();
    if (stop.end_look()) return std::nullopt;
  }
  all_reduce_fields(comm, sums, {&ValidationSums::loss, &ValidationSums::targets, &ValidationSums::correct},
                    ReduceOp::kSum, "validation");
  const double counted = std::max(1.0, sums.targets);
  ValidationResult result{.loss = sums.loss / counted};
  if (classes) result.accuracy = sums.correct / counted;
  return result;
}

}  // namespace echelon
