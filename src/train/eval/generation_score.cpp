#include "train/eval/generation_score.h"

#include <algorithm>

#include "comm/reduce_fields.h"
#include "data/batch_stream.h"
#include "train/batch_tensors.h"
#include "train/eval/inference_model.h"

namespace echelon {
namespace {

struct RougeSums {
  RougeScores scores;
  double texts = 0;
};

/// The text up to the end token, without ignored targets and ids outside the vocabulary.
template <class Iterator>
std::string text_of(const Tokenizer& tokenizer, Iterator begin, Iterator end) {
  std::vector<std::int32_t> ids;
  for (; begin != end && *begin != tokenizer.eos_id(); ++begin) {
    if (*begin >= 0 && *begin < tokenizer.vocab_size()) ids.push_back(static_cast<std::int32_t>(*begin));
  }
  return tokenizer.decode(ids);
}

}  // namespace

std::optional<RougeScores> generation_score(ShardedModel& model, const Loader& pairs, const TextOptions& text,
                                            const DataOptions& options, const TrainOptions& train,
                                            Communicator& comm, AgreedStop& stop) {
  const Tokenizer& tokenizer = *text.tokenizer;
  const std::int64_t end = std::min(options.validation.generate, pairs.samples_per_epoch());
  const std::int64_t per_pass = train.micro_batch_size * comm.size();
  const GenerateOptions search{.max_new_tokens = options.validation.max_new_tokens,
                               .end_ids = text.end_ids,
                               .beams = options.validation.beams};
  BatchStream stream(pairs, {comm.rank() * train.micro_batch_size, train.micro_batch_size, per_pass},
                     options.workers, options.prefetch_batches);
  RougeSums sums;
  for (std::int64_t first = 0; first < end; first += per_pass) {
    stop.begin_look();
    const SampleBatch batch = stream.next();
    const auto generated = generate_together(model, to_tensors(batch, model.device()), search, comm, &stop);
    if (stop.end_look()) return std::nullopt;
    auto target = batch.targets.begin();
    for (std::int64_t i = 0; i < batch.samples; ++i) {
      const auto behind = target + batch.target_lengths[static_cast<std::size_t>(i)];
      const std::string right = text_of(tokenizer, target, behind);
      target = behind;
      // The last pass may exceed the samples; the rank took part only to stay in step.
      if (batch.first_sample + i >= end) continue;
      const auto& ids = generated[static_cast<std::size_t>(i)];
      const RougeScores scores = rouge(text_of(tokenizer, ids.begin(), ids.end()), right);
      sums.scores.rouge1 += scores.rouge1;
      sums.scores.rouge2 += scores.rouge2;
      sums.scores.rouge_l += scores.rouge_l;
      sums.texts += 1;
    }
  }
  sum_fields(comm, sums, "generation");
  const double count = std::max(1.0, sums.texts);
  const RougeScores& all = sums.scores;
  return RougeScores{all.rouge1 / count, all.rouge2 / count, all.rouge_l / count};
}

}  // namespace echelon
