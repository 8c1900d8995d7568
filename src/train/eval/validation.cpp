#include "train/eval/validation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/log.h"
#include "base/str.h"
#include "comm/reduce_fields.h"
#include "data/batch_stream.h"
#include "data/data_identity.h"
#include "train/batch_tensors.h"

namespace echelon {
namespace {

struct ValidationSums {
  double loss = 0;
  double targets = 0;  ///< targets that are not ignored
  double correct = 0;  ///< right predictions, for classifiers and pairs of answers

  [[nodiscard]] std::optional<double> mean(double ValidationSums::*sum) const {
    return targets > 0 ? std::optional(this->*sum / targets) : std::nullopt;
  }
};

/// The samples of a source that count: [0, end).
std::int64_t end_of(const Loader& samples, const DataOptions& options, const TrainOptions& train) {
  const std::int64_t all = samples.samples_per_epoch();
  if (options.validation.batches == 0) return all;
  return std::min(all, options.validation.batches * train.global_batch_size);
}

/// The sums of one source over all ranks. `classes`: does the model tell what is correct?
std::optional<ValidationSums> pass_over(const Loader& samples, ShardedModel& model,
                                        const DataOptions& options, const TrainOptions& train,
                                        Communicator& comm, AgreedStop& stop, bool& classes) {
  const std::int64_t per_pass = train.micro_batch_size * comm.size();
  // Every rank takes part in every pass, because each pass gathers units. Samples beyond the end wrap around
  // to the beginning, and are ignored.
  const std::int64_t end = end_of(samples, options, train);
  BatchStream stream(samples, {comm.rank() * train.micro_batch_size, train.micro_batch_size, per_pass},
                     options.workers, options.prefetch_batches);
  ValidationSums sums;
  for (std::int64_t first = 0; first < end; first += per_pass) {
    stop.begin_look();
    SampleBatch batch = stream.next();
    ignore_from(batch, end);
    const Score score = model.evaluate(to_tensors(batch, model.device(), train.dpo.beta));
    sums.loss += score.loss.item<double>();
    sums.targets += static_cast<double>(counted_targets(batch));
    classes = score.correct.defined();
    if (classes) sums.correct += score.correct.item<double>();
    if (stop.end_look()) return std::nullopt;
  }
  model.groups().world().check_failure();
  sum_fields(comm, sums, "validation");
  return sums;
}

void warn_of_nothing(const std::string& source) {
  log::warn(str("the validation", source.empty() ? "" : str(" of '", source, "'"),
                " has no loss, because none of its targets counts: look at what data.validation names, or "
                "raise data.validation.batches"));
}

}  // namespace

std::optional<ValidationResult> validate(ShardedModel& model, std::span<const ValidationSource> sources,
                                         const DataOptions& options, const TrainOptions& train,
                                         Communicator& comm, AgreedStop& stop) {
  ValidationSums all;
  ValidationResult result;
  bool classes = false;
  for (const ValidationSource& source : sources) {
    const auto sums = pass_over(*source.loader, model, options, train, comm, stop, classes);
    if (!sums) return std::nullopt;
    all.loss += sums->loss;
    all.targets += sums->targets;
    all.correct += sums->correct;
    if (sums->targets == 0 && comm.rank() == 0) warn_of_nothing(source.name);
    if (sums->targets > 0 && !source.name.empty())
      result.losses.emplace_back(source.name, *sums->mean(&ValidationSums::loss));
  }
  result.loss = all.mean(&ValidationSums::loss);
  if (classes) result.accuracy = all.mean(&ValidationSums::correct);
  return result;
}

std::uint32_t validation_fingerprint(std::span<const ValidationSource> sources, const DataOptions& options,
                                     const TrainOptions& train) {
  std::uint32_t all = 0;
  for (const ValidationSource& source : sources)
    all = data_identity(all, source.loader->fingerprint(), end_of(*source.loader, options, train));
  return all;
}

}  // namespace echelon
