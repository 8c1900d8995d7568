#include "app/prove/proof.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/plugin.h"
#include "app/prove/own_data.h"
#include "app/prove/small_recipe.h"
#include "app/prove/start_weights.h"
#include "app/prove/trial_run.h"
#include "app/prove/variants.h"
#include "base/error.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon::app {
namespace {

// Bounds of fp32 runs against the fp64 reference. docs/prove.md says where they come from.
constexpr double kLoss = 2e-6;
constexpr double kGradNorm = 3e-5;
constexpr double kGradient = 1e-4;
constexpr double kTrainedLoss = 1e-4;
constexpr double kTrainedNorm = 5e-3;
constexpr double kWeights = 3e-2;
constexpr double kRate = 1e-12;
constexpr double kNormLoss = 1e-5;  // two roundings instead of one differ more
/// Multiples of what the reference differs from itself when it computes in the same type.
constexpr double kMultiple = 8;
constexpr double kBf16Step = 1.0 / 512;  // half the distance of bf16 numbers at 1
constexpr double kOfFp16 = 1.0 / 8;      // what fp16 rounds, as a share of what bf16 does

ReferenceResult reference(const Recipe& recipe, const Tensors& weights, DType type,
                          const std::vector<bool>& left_out = {}) {
  ReferenceResult result;
  std::string fault;
  const int status = engine_function<ReferenceFunction>("echelon_engine_reference")(recipe, weights, type,
                                                                                    left_out, result, fault);
  if (status != 0) throw Error(static_cast<Code>(status), "the reference: ", fault);
  return result;
}

double mean_of(const Distances& distances) {
  double sum = 0;
  for (const auto& [name, value] : distances) sum += value;
  return sum / static_cast<double>(distances.size());
}

class Prover {
 public:
  Prover(const Recipe& recipe, int ranks, std::filesystem::path folder, const OnProved& on_proved)
      : own_precision_(recipe.precision), ranks_(ranks), folder_(std::move(folder)), on_proved_(on_proved) {
    Recipe small = small_recipe(recipe, ranks);
    write_own_data(small.data, small.model.vocab_size, folder_);
    weights_ = start_weights(small);
    for (const auto& [name, values] : weights_) {
      if (is_frozen(small, name)) frozen_[name] = values;
    }
    small.checkpoint.init_from = write_start(weights_, small, folder_ / "start").string();
    // Checkpoints then hold what is frozen, instead of leaving out a base that lies elsewhere.
    small.checkpoint.init_partial = true;
    small_ = in_fp32(std::move(small));
  }

  Proof prove() {
    const Recipe one = of_one_gradient(small_);
    const ReferenceResult right = reference(one, weights_, DType::kF64);
    if (!is_synthetic(one.data.kind)) prove_samples(one);
    prove_gradients(one, right);
    prove_uneven(one);
    prove_precision(one, right);
    prove_norm(one);
    if (computes_in(own_precision_, FloatType::kFp16)) prove_overflow(right.gradients);
    prove_training();
    return std::move(proof_);
  }

 private:
  ProofPart& begin(const std::string& title) {
    ProofPart& part = proof_.parts.emplace_back(ProofPart{title, {}});
    on_proved_(part);
    return part;
  }

  /// `left`: of a run that trained.
  void add(ProofPart& part, std::string name, const Left& left, std::vector<Difference> differences) {
    if (!frozen_.empty()) differences.push_back(of_bits("frozen", left.weights, frozen_));
    add(part, std::move(name), std::move(differences));
  }

  void add(ProofPart& part, std::string name, std::vector<Difference> differences) {
    part.runs.push_back({std::move(name), std::move(differences)});
    on_proved_(part);
  }

  /// Starts a run in a folder of its own.
  Trial trial(Recipe recipe, int ranks) {
    fit_to(ranks, recipe.shard);
    recipe.run.name = str("run-", ++runs_);
    recipe.run.dir = (folder_ / recipe.run.name).string();
    return {describe(recipe, ranks), ranks, recipe};
  }

  void compare_gradient(ProofPart& part, const Recipe& recipe, int ranks, const ReferenceResult& right) {
    const Trial run = trial(recipe, ranks);
    const Left left = run_trial(run);
    add(part, run.name, left,
        {of_steps("loss", kLoss, left.loss, right.loss),
         of_steps("grad_norm", kGradNorm, left.grad_norm, right.grad_norm),
         of_tensors("gradients", kGradient, distances(left.moments, right.gradients))});
  }

  void prove_gradients(const Recipe& one, const ReferenceResult& right) {
    ProofPart& part = begin("gradients of one step, in fp32");
    for (int ranks = 1; ranks <= ranks_; ++ranks) {
      if (one.train.global_batch_size % (one.train.micro_batch_size * ranks) == 0)
        compare_gradient(part, one, ranks, right);
    }
    const std::vector<ShardStrategy> others = other_strategies(one);
    Recipe wide = with_strategy(one, others[0], RecomputePolicy::kFull);
    wide.train.micro_batch_size = wide.train.global_batch_size / ranks_;
    compare_gradient(part, wide, ranks_, right);
    Recipe narrow = with_strategy(one, others[1], RecomputePolicy::kSelective);
    narrow.train.micro_batch_size = 1;
    narrow.train.reduce_gradients = ReduceGradients::kLastMicroBatch;
    compare_gradient(part, narrow, ranks_, right);
    compare_gradient(part, with_strategy(one, others[2], RecomputePolicy::kNone), ranks_, right);
  }

  void prove_samples(const Recipe& recipe) {
    ProofPart& part = begin("samples that the files do not hold");
    add(part,
        str(word_of(recipe.data.kind),
            recipe.data.kind == DataKind::kTokens ? str(", packing ", word_of(recipe.data.packing)) : ""),
        {of_samples(recipe)});
  }

  /// Samples of very different numbers of tokens that count.
  void prove_uneven(Recipe one) {
    // Pairs and chats are uneven by themselves.
    if (takes_images(one.model.kind) || gives_pairs(one.data.kind) || one.data.kind == DataKind::kChat)
      return;
    const bool padded = one.data.kind == DataKind::kTokens && one.data.packing == Packing::kPad;
    one.data.kind = DataKind::kTokens;
    one.data.packing = padded ? Packing::kDocuments : Packing::kPad;
    write_own_data(one.data, one.model.vocab_size, folder_);
    prove_samples(one);
    ProofPart& part = begin(padded ? "the same with several documents in a sample"
                                   : "the same with one document in a sample, of any length");
    const ReferenceResult right = reference(one, weights_, DType::kF64);
    compare_gradient(part, one, ranks_, right);
  }

  void prove_precision(Recipe one, const ReferenceResult& right) {
    if (is_fp32(own_precision_)) return;
    one = in_precision(std::move(one), own_precision_);
    // A step that overflows is left out, and this is the only one.
    if (computes_in(own_precision_, FloatType::kFp16))
      one.precision.loss_scale = std::min(own_precision_.loss_scale, 256.0);
    const ReferenceResult rounded = reference(one, weights_, DType::kBF16);
    const double overall = std::max(overall_distance(rounded.gradients, right.gradients), kBf16Step);
    const double share = share_of_bf16();
    ProofPart& part = begin(str("in the recipe's precision: multiples of what the reference differs in ",
                                share < 1 ? "fp16" : "bf16"));
    const Trial run = trial(one, ranks_);
    const Left left = run_trial(run);
    Difference loss = of_steps("loss", kMultiple, left.loss, right.loss);
    loss.value /= share * std::max(of_steps("", 0, rounded.loss, right.loss).value, kBf16Step);
    Difference norm = of_steps("grad_norm", kMultiple, left.grad_norm, right.grad_norm);
    norm.value /= share * overall;  // norms differ by no more than the gradients
    Distances multiples = distances(left.moments, right.gradients);
    const Distances own = distances(rounded.gradients, right.gradients);
    for (auto& [name, value] : multiples) value /= share * std::max(own.at(name), overall);
    add(part, run.name, left, {loss, norm, of_tensors("gradients", kMultiple, multiples)});
  }

  /// Where a norm rounds is lost in the rounding of all else, so here all else is exact.
  void prove_norm(Recipe one) {
    one = of_losses(in_precision(std::move(one), own_precision_));
    if (!rounds_in_norms(one)) return;
    const Tensors weights = without_blocks(weights_, one.model);
    one.checkpoint.init_from = write_start(weights, one, folder_ / "start-of-norm").string();
    ProofPart& part = begin("six losses in bf16 of blocks that compute 0: where the last norm rounds");
    const Trial run = trial(one, ranks_);
    const ReferenceResult right = reference(one, weights, DType::kBF16);
    add(part, run.name, {of_steps("loss", kNormLoss, run_trial(run).loss, right.loss)});
  }

  void prove_overflow(const Tensors& gradients) {
    ProofPart& part = begin(str(kOverflowSteps, " steps in fp16, of which the first overflow"));
    const Trial run = trial(overflowing(in_precision(small_, own_precision_), gradients), ranks_);
    compare_overflow(part, run.name, run.recipe, run_trial(run));
    go_back(run.recipe, kOverflowSteps / 2);
    compare_overflow(part, run.name + ", resumed", run.recipe, run_trial(run));
  }

  /// The loss scale, and the training without the steps that were left out.
  void compare_overflow(ProofPart& part, const std::string& name, const Recipe& recipe, const Left& left) {
    std::vector<bool> left_out;
    std::vector<double> scales;
    double scale = recipe.precision.loss_scale;
    for (const double norm : left.grad_norm) {
      left_out.push_back(!std::isfinite(norm));
      if (left_out.back()) scale /= 2;
      scales.push_back(scale);
    }
    const ReferenceResult right = reference(recipe, weights_, DType::kF64, left_out);
    const ReferenceResult rounded = reference(recipe, weights_, DType::kBF16, left_out);
    Difference loss = of_steps("loss", kMultiple, left.loss, right.loss);
    loss.value /= share_of_bf16() * std::max(of_steps("", 0, rounded.loss, right.loss).value, kBf16Step);
    const auto distance = [&](const Tensors& weights) {
      return update_distances(weights, right.weights, weights_, right.largest_gradients);
    };
    // The mean over all weights: what AdamW makes of gradients that are nearly nothing differs much.
    Difference weights = of_tensors("weights", kMultiple, distance(left.weights));
    weights.value = mean_of(distance(left.weights)) / (share_of_bf16() * mean_of(distance(rounded.weights)));
    const bool skips = left_out.front() && !left_out.back();
    add(part, name, left,
        {{"overflow", skips ? 0.0 : 1.0, 0, left_out.front() ? "the last step" : "the first step"},
         of_steps("scale", 0, left.loss_scale, scales),
         loss,
         weights});
  }

  /// The rounding of the recipe's types, as a share of bf16's.
  [[nodiscard]] double share_of_bf16() const {
    return computes_in(own_precision_, FloatType::kFp16) && !computes_in(own_precision_, FloatType::kBf16)
               ? kOfFp16
               : 1;
  }

  /// The distance of `other` from `right`.
  std::vector<Difference> differences_of_training(const Trained& other, const ReferenceResult& right) const {
    std::vector<Difference> found{
        of_steps("loss", kTrainedLoss, other.loss, right.loss),
        of_steps("grad_norm", kTrainedNorm, other.grad_norm, right.grad_norm),
        of_steps("lr", kRate, other.lr, right.lr),
        of_tensors("weights", kWeights,
                   update_distances(other.weights, right.weights, weights_, right.largest_gradients))};
    if (!right.averages.empty()) {
      found.push_back(
          of_tensors("averages", kWeights,
                     update_distances(other.averages, right.averages, weights_, right.largest_gradients)));
    }
    return found;
  }

  /// `rounded`: how far the reference is from itself when it computes in fp32.
  void compare_training(ProofPart& part, const std::string& name, const Left& left,
                        const ReferenceResult& right, const std::vector<Difference>& rounded) {
    std::vector<Difference> found = differences_of_training(left, right);
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i].bound = std::max(found[i].bound, kMultiple * rounded[i].value);
    add(part, name, left, std::move(found));
  }

  void prove_training() {
    ProofPart& part = begin(str(kProvedSteps, " steps with ", word_of(small_.optim.kind), ", in fp32"));
    const ReferenceResult right = reference(small_, weights_, DType::kF64);
    const ReferenceResult in_fp32 = reference(small_, weights_, DType::kF32);
    const std::vector<Difference> rounded = differences_of_training(in_fp32, right);
    const Trial own = trial(small_, ranks_);
    compare_training(part, own.name, run_trial(own), right, rounded);
    // It keeps gathered weights, which an update must replace, from step to step.
    const bool is_own = small_.shard.strategy == ShardStrategy::kShardOptimizer;
    const Recipe other = with_strategy(
        small_, is_own ? ShardStrategy::kFullShard : ShardStrategy::kShardOptimizer, RecomputePolicy::kNone);
    const Trial kept = trial(other, ranks_);
    compare_training(part, kept.name, run_trial(kept), right, rounded);
    go_back(own.recipe, kProvedSteps / 2);
    compare_training(part, own.name + ", resumed", run_trial(own), right, rounded);
    go_back(own.recipe, kProvedSteps / 2);
    const Trial elsewhere = resharded(own, other);
    compare_training(part, elsewhere.name + ", resumed", run_trial(elsewhere), right, rounded);
  }

  /// The run `own` on another number of ranks and as `other` says.
  Trial resharded(const Trial& own, Recipe other) const {
    const int ranks = std::max(1, ranks_ - 1);
    const TrainOptions& train = other.train;
    while (train.global_batch_size % (train.micro_batch_size * ranks) != 0 && train.micro_batch_size > 1)
      --other.train.micro_batch_size;
    if (train.global_batch_size % ranks != 0) return own;
    other.run = own.recipe.run;
    return {describe(other, ranks), ranks, other};
  }

  PrecisionOptions own_precision_;
  int ranks_;
  std::filesystem::path folder_;
  const OnProved& on_proved_;
  Recipe small_;  ///< in fp32
  Tensors weights_;
  Tensors frozen_;  ///< those of weights_ that must stay
  Proof proof_;
  int runs_ = 0;
};

std::vector<std::string> not_compared(const Recipe& recipe) {
  std::vector<std::string> lines{"GPUs and nodes: all runs are on CPU ranks of this machine"};
  if (recipe.lora.rank > 0)
    lines.emplace_back("adapters that an export merges into the weights: they are compared beside them");
  if (!is_synthetic(recipe.data.kind))
    lines.emplace_back(gives_images(recipe.data.kind)
                           ? "image files and how they are cut: images are computed"
                           : "the files of data: files of random tokens of the same form stand for them");
  if (recipe.optim.kind == OptimKind::kAnyPrecisionAdamW)
    lines.emplace_back("states of the optimizer in bf16, and what Kahan sums keep: they are in fp32");
  if (recipe.precision.matmul == Matmul::kFp8)
    lines.emplace_back("products of fp8: they are of the type that precision.param says");
  if (!recipe.evaluation.tasks.empty())
    lines.emplace_back("answers to evaluation.tasks: no questions are asked");
  lines.emplace_back("the curve of the learning rate: that each step uses its rate is");
  return lines;
}

}  // namespace

const Proved* Proof::first_failure() const {
  for (const ProofPart& part : parts) {
    for (const Proved& run : part.runs) {
      if (!run.holds()) return &run;
    }
  }
  return nullptr;
}

Proof prove(const Recipe& recipe, int ranks, const std::filesystem::path& folder, const OnProved& on_proved) {
  const double began_s = steady_now_s();
  Proof proof = Prover(recipe, ranks, folder, on_proved).prove();
  proof.not_compared = not_compared(recipe);
  proof.seconds = steady_now_s() - began_s;
  return proof;
}

}  // namespace echelon::app
