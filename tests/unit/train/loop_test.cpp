#include "train/loop.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "comm/local_communicator.h"
#include "support/temp_dir.h"
#include "support/unsharded.h"
#include "train/batch_tensors.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::materialize;

constexpr std::int64_t kColumns = 7;

/// Four samples over and over; the last target of some of them is padding.
class PaddedSamples final : public Loader {
 public:
  explicit PaddedSamples(bool padded) : padded_(padded) { set_longest(kColumns - 1); }
  /// `longest`: of the samples that there could be.
  void set_longest(std::int64_t longest) { identify(4, 1, {longest, 0, kColumns - 1}); }
  void append(std::int64_t row, SampleBatch& batch) const override {
    batch.lengths.push_back(kColumns - 1);
    for (std::int64_t i = 0; i + 1 < kColumns; ++i) {
      batch.ids.push_back((3 * row + i * i) % 13);
      batch.targets.push_back((3 * row + (i + 1) * (i + 1)) % 13);
    }
    if (padded_ && row % 4 != 1) batch.targets.back() = -100;
    if (row >= counted) std::fill_n(batch.targets.end() - kColumns + 1, kColumns - 1, -100);
  }

  std::int64_t counted = 1'000'000;  ///< samples from this one on have no target that counts

 private:
  bool padded_;
};

/// A run of one rank.
struct OneRun {
  explicit OneRun(bool padded = true) : data(padded) {
    at::set_num_threads(1);
    options.train.global_batch_size = 4;
    options.train.clip_grad_norm = 0;
    options.train.steps = 1;
    options.optim.kind = OptimKind::kSgd;
    options.optim.lr = 0.5;
    options.optim.weight_decay = 0;
    options.schedule.kind = ScheduleKind::kConstant;
  }
  /// Trains to the end; returns the weights as one vector.
  at::Tensor train() {
    model = std::make_unique<ShardedModel>(build_model(test::small_options(), at::kFloat, at::kCPU), comm,
                                           engine, 3, at::kCPU);
    optim = std::make_unique<Optimizer>(options.optim, *model);
    state = std::make_unique<TrainState>(
        TrainState{.model = *model, .optim = *optim, .data = data, .best = best});
    state->skipped_in_a_row = skipped_in_a_row;
    state->loss_scale = LossScale(engine.precision, model->needs_loss_scale());
    const RunFolder folder(temporary.path(), false);
    Checkpointer checkpointer({}, folder, comm, {});
    MetricsFile metrics(folder.metrics(), 0);
    std::vector<ValidationSource> validation;
    auto held_out = std::make_unique<PaddedSamples>(data);
    held_out->counted = counted_in_validation;
    validation.push_back({"", std::move(held_out)});
    Progress progress(Progress::Style::kNone, 1, options.train.steps);
    const StopSignal signal;
    AgreedStop stop(signal, comm);
    Deadline deadline({});
    Ledger ledger;
    const LoopParts parts{.state = *state,
                          .checkpointer = checkpointer,
                          .comm = comm,
                          .stop = stop,
                          .folder = folder,
                          .progress = progress,
                          .metrics = metrics,
                          .deadline = deadline,
                          .ledger = ledger,
                          .validation = validation,
                          .evaluation = evaluation};
    EXPECT_EQ(TrainLoop(options, parts).run(), RunEnd::kFinished);
    return at::cat(mapped(model->units(), [](const auto& unit) { return unit->master(); }));
  }
  /// The lines of its metrics.
  [[nodiscard]] std::vector<nlohmann::json> logged() const {
    std::ifstream file(temporary.path() / "metrics.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  test::TempDir temporary;
  LocalCommunicator comm;
  PaddedSamples data;
  std::int64_t counted_in_validation = 1'000'000;
  RunEvaluation* evaluation = nullptr;
  std::optional<BestValidation> best;  ///< of before the run
  std::int64_t skipped_in_a_row = 0;   ///< steps just before the run
  LoopOptions options;
  EngineOptions engine;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optim;
  std::unique_ptr<TrainState> state;
};

TEST(TrainLoop, AccumulationIsExactWhereMicroBatchesHavePadding) {
  OneRun whole;
  whole.options.train.micro_batch_size = 4;
  const at::Tensor expected = whole.train();
  for (const bool at_end : {false, true}) {
    OneRun cut;
    cut.options.train.micro_batch_size = 1;
    cut.engine.reduce_at_end = at_end;
    const at::Tensor weights = cut.train();
    EXPECT_LT((weights - expected).abs().max().item<double>(), 1e-6);
  }
  OneRun full(false);
  EXPECT_GT((full.train() - expected).abs().max().item<double>(), 1e-4) << "padding must count for nothing";
}

TEST(TrainLoop, TheStepIsThatOfTheMeanOverRealTokens) {
  OneRun run;
  run.options.train.micro_batch_size = 2;
  const at::Tensor weights = run.train();
  // The same by hand: SGD on the mean over the 4 * 6 - 3 targets that count.
  const auto model = build_model(test::small_options(), at::kFloat, at::kCPU);
  materialize(*model, 3);
  model->loss(to_tensors(run.data.read(0, 4), at::kCPU), 1.0 / 21).backward();
  std::map<std::string, at::Tensor> expected;
  for (const Parameter* parameter : model->parameters()) {
    at::Tensor rest = (parameter->value - 0.5 * parameter->value.grad()).detach().flatten();
    for (const Parameter::Part& part : parameter->parts()) {
      expected[part.name] = rest.narrow(0, 0, part.numel());
      rest = rest.narrow(0, part.numel(), rest.numel() - part.numel());
    }
  }
  for (const auto& unit : run.model->units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      const at::Tensor mine = unit->master().narrow(0, piece.at, piece.end - piece.begin);
      EXPECT_LT((mine - expected.at(piece.part->name)).abs().max().item<double>(), 1e-6) << piece.part->name;
    }
  }
}

TEST(TrainLoop, ClippingByValueBoundsEveryElementOfTheMeanGradient) {
  OneRun run;
  run.options.train.clip_grad_value = 1e-4;
  OneRun still;
  still.options.optim.lr = 1e-30;
  const at::Tensor moved = (run.train() - still.train()).abs();
  EXPECT_LE(moved.max().item<double>(), 0.5 * 1e-4 * 1.01);
  EXPECT_GT(moved.max().item<double>(), 0.5 * 1e-4 * 0.99);
}

TEST(TrainLoop, AStepThatIsNotFiniteIsLeftOutAndCounted) {
  OneRun run;
  run.engine.precision.preset = PrecisionPreset::kFp16;
  run.engine.precision.loss_scale = 1e12;  // overflows until it has halved often enough
  run.options.train.steps = 40;
  const at::Tensor weights = run.train();
  EXPECT_GT(run.state->skipped, 5);
  EXPECT_LT(run.state->skipped, 40);
  EXPECT_EQ(run.state->loss_scale.factor(), 1e12 / std::pow(2.0, static_cast<double>(run.state->skipped)));
  EXPECT_TRUE(at::isfinite(weights).all().item<bool>());
}

TEST(TrainLoop, TooManyInARowEndTheRunWithTheWeightsUntouched) {
  OneRun run;
  run.options.train.steps = 10;
  run.options.train.non_finite = NonFinite::kSkip;
  run.options.train.max_skipped_steps = 2;
  run.options.optim.lr = std::numeric_limits<double>::max();  // the first update ruins the weights
  EXPECT_THROW(run.train(), Error);
  EXPECT_EQ(run.state->skipped, 3);
  EXPECT_TRUE(run.state->model.units()[0]->master().defined());
}

TEST(TrainLoop, AValidationLossThatIsNotFiniteIsNeverTheBest) {
  OneRun run;
  run.options.train.validate_every_steps = 1;
  run.options.optim.lr = std::numeric_limits<double>::max();  // the first update ruins the weights
  (void)run.train();
  EXPECT_FALSE(run.state->best);
  EXPECT_FALSE(std::filesystem::exists(run.temporary.path() / "best_validation.json"));
}

TEST(TrainLoop, AValidationInWhichNothingCountsHasNoLossAndIsNeverTheBest) {
  OneRun run;
  run.options.train.validate_every_steps = 1;
  run.counted_in_validation = 0;
  (void)run.train();
  EXPECT_FALSE(run.state->best);
  const auto line = run.logged().at(0);
  EXPECT_FALSE(line.contains("validation_loss"));
  EXPECT_TRUE(line["loss"].is_number());
}

/// A run whose optimizer moves weights without a gradient.
struct RunOfMomentum : OneRun {
  RunOfMomentum() {
    options.optim.momentum = 0.9;
    options.optim.weight_decay = 0.1;
  }
};

TEST(TrainLoop, AStepInWhichNothingCountsMovesNoWeight) {
  RunOfMomentum run;
  const at::Tensor expected = run.train();
  RunOfMomentum longer;
  longer.data.counted = 4;
  longer.options.train.steps = 3;
  EXPECT_TRUE(longer.train().equal(expected));
  EXPECT_EQ(longer.state->skipped, 2);
  EXPECT_TRUE(longer.logged().back()["loss"].is_null());
}

TEST(TrainLoop, StepsInWhichNothingCountsEndTheRunAfterTooManyInARow) {
  OneRun run;
  run.data.counted = 0;
  run.options.train.steps = 20;
  EXPECT_THROW(run.train(), Error);
  EXPECT_EQ(run.state->skipped, run.options.train.max_skipped_steps + 1);
  run.skipped_in_a_row = run.options.train.max_skipped_steps;
  EXPECT_THROW(run.train(), Error);
  EXPECT_EQ(run.state->skipped, 1) << "those before a resume are counted";
}

TEST(TrainLoop, CountsTokensAndSamplesAndTellsTheTime) {
  OneRun run;
  run.options.train.steps = 3;
  run.options.metrics.every_steps = 1;
  run.options.peak_flops = 1e9;
  const double before = utc_now_s();
  (void)run.train();
  EXPECT_EQ(run.state->tokens, 3 * 4 * (kColumns - 1));
  std::int64_t steps = 0;
  for (const auto& json : run.logged()) {
    ++steps;
    EXPECT_EQ(json["tokens"], steps * 4 * (kColumns - 1));
    EXPECT_EQ(json["samples"], steps * 4);
    EXPECT_GE(json["time"].get<double>(), before - 0.001);
    EXPECT_LE(json["time"].get<double>(), utc_now_s() + 0.001);
    EXPECT_GT(json["mfu"].get<double>(), 0);
  }
  EXPECT_EQ(steps, 3);
}

TEST(TrainLoop, AStepThatIsFasterThanThePeakIsTheBetterMeasurementOfIt) {
  OneRun run;
  run.options.train.steps = 3;
  run.options.metrics.every_steps = 1;
  run.options.peak_flops = 1;
  (void)run.train();
  double highest = 0;
  for (const auto& line : run.logged()) highest = std::max(highest, line["mfu"].get<double>());
  EXPECT_EQ(highest, 1);
}

TEST(TrainLoop, RoomThatNoTokenFillsIsNoWorkOfTheModel) {
  const auto work_of_a_sample = [](std::int64_t longest) {
    OneRun run;
    run.data.set_longest(longest);
    run.options.metrics.every_steps = 1;
    (void)run.train();
    const auto line = run.logged().at(0);
    return line["model_tflops_per_s"].get<double>() / line["samples_per_s"].get<double>();
  };
  const double full = work_of_a_sample(kColumns - 1);
  EXPECT_NEAR(work_of_a_sample(4 * (kColumns - 1)) / full, 1, 0.5) << "all but attention";
}

/// A token of the small model for each byte.
class Bytes final : public Tokenizer {
 public:
  Bytes() { set_facts({.vocab_size = 13, .bos_id = 1, .eos_id = 2}); }
  class Encoder final : public TextEncoder {
    void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
      for (const char byte : text) ids.push_back(byte % 13);
    }
  };
  std::unique_ptr<TextEncoder> make_encoder() const override { return std::make_unique<Encoder>(); }
  std::string decode(std::span<const std::int32_t>) const override { return ""; }
  std::string name_of(std::int32_t) const override { return ""; }
};

TEST(TrainLoop, AValidationIsKeptWhenTheEvaluationBehindItIsStopped) {
  OneRun run;
  const std::filesystem::path file = run.temporary.path() / "t.jsonl";
  std::ofstream(file) << R"({"context": "a", "choices": ["b", "c"], "answer": 0})"
                      << "\n";
  const TaskPasses passes{.on_pass = [](std::uint64_t, std::uint64_t) { std::raise(SIGTERM); }};
  run.options.text = {std::make_shared<Bytes>(), {2}};
  RunEvaluation evaluation({.tasks = {{"t", file.string()}}}, *run.options.text.tokenizer, {8, 13}, passes);
  run.evaluation = &evaluation;
  run.options.train.validate_every_steps = 1;
  (void)run.train();
  ASSERT_TRUE(run.state->best);
  const auto line = run.logged().at(0);
  EXPECT_EQ(line["validation_loss"], run.state->best->value);
  EXPECT_FALSE(line.contains("eval/t/acc"));
}

TEST(TrainLoop, ALossOnOtherValidationDataIsNoBest) {
  OneRun run;
  run.options.train.validate_every_steps = 1;
  run.best = {.step = 0, .value = -1, .data = 1};
  (void)run.train();
  EXPECT_EQ(run.state->best->step, 1);
  run.best->data = run.state->best->data;
  (void)run.train();
  EXPECT_EQ(run.state->best->step, 0) << "nothing is below a loss of -1 on the same data";
  run.options.data.validation.batches = 1;
  run.options.train.global_batch_size = 2;
  (void)run.train();
  EXPECT_EQ(run.state->best->step, 1) << "a part of the data is another measure";
}

TEST(TrainLoop, ABestValidationThatCannotBeNotedEndsNothing) {
  OneRun run;
  run.options.train.validate_every_steps = 1;
  std::filesystem::create_directories(run.temporary.path() / "best_validation.json" / "in the way");
  (void)run.train();
  EXPECT_EQ(run.state->best->step, 1);
}

}  // namespace
}  // namespace echelon
