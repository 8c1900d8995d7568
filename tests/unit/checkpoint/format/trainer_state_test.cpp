#include "checkpoint/format/trainer_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/str.h"
#include "support/matches.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

constexpr const char* kWhole =
    R"({"step":1200,"next_sample":9600,"data_fingerprint":7,"ranks":2,"skipped_steps":3,)"
    R"("loss_scale":{"factor":1024.0,"finite_in_a_row":5},"best":{"step":1100,"validation_loss":2.5}})";

std::string replaced(const std::string& what, const std::string& by) {
  std::string text = kWhole;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

/// States that a run cannot go on from, and what the refusal mentions.
const std::vector<std::pair<std::string, std::string>>& unsound() {
  static const std::vector<std::pair<std::string, std::string>> all{
      {replaced("2.5", "null"), "validation_loss"},
      {replaced("\"validation_loss\":2.5", "\"task\":\"piqa\""), "score"},
      {replaced("\"validation_loss\"", "\"task\":7,\"score\""), "'task' must be a text"},
      {replaced("2.5", "\"2.5\""), "validation_loss"},
      {replaced("1100", "1201"), "1201"},
      {replaced(R"({"step":1100,"validation_loss":2.5})", "7"), "step"},
      {replaced("1024.0", "null"), "factor"},
      {replaced("1024.0", "-1.0"), "factor"},
      {replaced("\"finite_in_a_row\":5", "\"finite\":5"), "finite_in_a_row"},
      {replaced("\"step\":1200", "\"step\":1199"), "1199"},
      {replaced("\"step\":1200", "\"stop\":1200"), "step"},
      {replaced("9600", "-1"), "next_sample"},
      {replaced("\"next_sample\":9600,", ""), "next_sample"},
      {replaced("\"data_fingerprint\":7,", ""), "data_fingerprint"},
      {replaced("\"skipped_steps\":3", "\"skipped_steps\":1201"), "skipped_steps"},
      {replaced("\"skipped_steps\":3", "\"skipped_steps\":3,\"skipped_in_a_row\":4"), "skipped_in_a_row"},
      {replaced("\"ranks\":2", "\"ranks\":2.5"), "ranks"},
  };
  return all;
}

TEST(TrainerState, ComesBackAsItWas) {
  TrainerState state = parse_trainer_state(kWhole, 1200, "here");
  EXPECT_EQ(state.next_sample, 9600);
  EXPECT_EQ(state.skipped_steps, 3);
  EXPECT_EQ(state.loss_scale->finite_in_a_row, 5);
  EXPECT_EQ(state.best->value, 2.5);
  EXPECT_EQ(state.skipped_in_a_row, 0) << "as older versions wrote it";
  state.skipped_in_a_row = 2;
  const TrainerState again = parse_trainer_state(trainer_state_text(state), 1200, "there");
  EXPECT_EQ(again.loss_scale->factor, 1024.0);
  EXPECT_EQ(again.best->step, 1100);
  EXPECT_EQ(again.ranks, 2);
  EXPECT_EQ(again.skipped_in_a_row, 2);
  EXPECT_EQ(again.data_fingerprint, 7U);
}

TEST(TrainerState, ABestStepBelongsToALossOrToATask) {
  TrainerState state{.step = 4};
  state.best = {3, 0.5, "piqa", 17};
  const TrainerState again = parse_trainer_state(trainer_state_text(state), 4, "there");
  EXPECT_EQ(again.best->task, "piqa");
  EXPECT_EQ(again.best->value, 0.5);
  EXPECT_EQ(again.best->data, 17U);
}

TEST(TrainerState, IsRefusedByNameWhereARunCannotGoOnFromIt) {
  for (const auto& [text, mentioned] : unsound()) {
    const std::string error = error_of([&, t = text] { (void)parse_trainer_state(t, 1200, "FOLDER"); });
    EXPECT_MENTIONS(error, "FOLDER", mentioned) << text << '\n' << error;
  }
}

TEST(TrainerState, IsNotWrittenWhereItCouldNotBeReadBack) {
  TrainerState state{.step = 4};
  state.best = {3, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_MENTIONS(error_of([&] { (void)trainer_state_text(state); }), "validation_loss");
}

TEST(TrainerState, VerifyNamesWhatResumingWouldRefuse) {
  for (const auto& [text, mentioned] : unsound()) {
    const TempDir dir;
    const Path folder = save(dir.path() / "checkpoints", {.trainer_state = text});
    const Outcome outcome = tool({"verify", folder});
    EXPECT_EQ(outcome.code, 5) << text << outcome.out;
    EXPECT_MENTIONS(outcome.out, mentioned) << text << '\n' << outcome.out;
    EXPECT_EQ(tool({"verify", "--quick", folder}).code, 5) << text;
  }
}

TEST(TrainerState, VerifyTakesWhatNoTrainerWrote) {
  for (const std::string text :
       {kWhole, "{}", R"({"tokens":1000})", R"({"imported":{"from":"safetensors","optimizer":false}})"}) {
    const TempDir dir;
    EXPECT_EQ(tool({"verify", save(dir.path() / "checkpoints", {.trainer_state = text})}).code, 0) << text;
  }
}

TEST(TrainerState, PruneKeepsTheBestThatTheLastSoundStateNames) {
  const TempDir dir;
  for (int step = 1; step <= 5; ++step) {
    const std::string loss = step == 5 ? "null" : "1.5";
    save(dir.path() / "checkpoints",
         {.step = step,
          .ranks = 1,
          .trainer_state = str(R"({"best":{"step":1,"validation_loss":)", loss, "}}")});
  }
  const Outcome outcome = tool({"prune", dir.path(), "--keep-last", "2", "--yes"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(outcome.err, "validation_loss");
  EXPECT_EQ(names_in(dir.path() / "checkpoints").front(), step_folder_name(1, "a1b2c3d4"));
}

}  // namespace
}  // namespace echelon::checkpoint
