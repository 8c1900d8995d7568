#include "train/eval/validation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "data/batch_stream.h"
#include "train/batch_tensors.h"

namespace echelon {

std::optional<ValidationResult> validate(ShardedModel& model, const Loader& samples,
                                         const DataOptions& options, const TrainOptions& train,
                                         Communicator& comm, AgreedStop& stop) {
  const std::int64_t all = samples.samples_per_epoch();
  const std::int64_t per_pass = train.micro_batch_size * comm.size();
  // Every rank takes part in every pass, so units stay in step: what is behind the end is read again from the
  // beginning and does not count.
  std::int64_t end = options.validation.batches * train.global_batch_size;
  if (options.validation.batches == 0 || end > all) end = all;
  BatchStream stream(samples, {comm.rank() * train.micro_batch_size, train.micro_batch_size, per_pass},
                     options.workers, options.prefetch_batches);
  double sum[3] = {0, 0, 0};
  bool classes = false;
  for (std::int64_t first = 0; first < end; first += per_pass) {
    stop.begin_look();
    SampleBatch batch = stream.next();
    ignore_from(batch, end);
    const Score score = model.evaluate(to_tensors(batch, model.device()));
    sum[0] += score.loss.item<double>();
    sum[1] += static_cast<double>(counted_targets(batch));
    classes = score.correct.defined();
    if (classes) sum[2] += score.correct.item<double>();
    if (stop.end_look()) return std::nullopt;
  }
  comm.all_reduce(sum, 3, DType::kF64, ReduceOp::kSum, "validation").wait();
  const double counted = std::max(1.0, sum[1]);
  ValidationResult result{sum[0] / counted, {}};
  if (classes) result.accuracy = sum[2] / counted;
  return result;
}

}  // namespace echelon
