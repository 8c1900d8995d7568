#include "run/goodput.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace echelon {
namespace {

/// Steps 0 to 40 in 80 s of training, of which the first 30 took 50 s and are saved.
RunStart killed_start() {
  RunStart start{
      .job = "12", .restart = 1, .ranks = 4, .began_s = 1000, .ended_s = 1100, .end = StartEnd::kKilled};
  start.last_step = 40;
  start.saved_step = 30;
  start.until_saved_s = 50;
  start[Spent::kStart] = 15;
  start[Spent::kTrain] = 80;
  start[Spent::kStall] = 5;
  return start;
}

TEST(Goodput, WhatWasTrainedAfterTheStepThatIsGoneOnFromIsLost) {
  for (const auto& [step, lost] :
       {std::pair{30, 30.0}, {35, 15.0}, {40, 0.0}, {50, 0.0}, {0, 80.0}, {15, 55.0}}) {
    RunStart start = killed_start();
    start.lose_after(step);
    EXPECT_DOUBLE_EQ(start[Spent::kLost], lost) << step;
    EXPECT_DOUBLE_EQ(start[Spent::kTrain], 80 - lost) << step;
  }
}

TEST(Goodput, WhatIsLostStaysLostAndCountsOnce) {
  RunStart start = killed_start();
  start.lose_after(30);
  start.lose_after(35);
  EXPECT_DOUBLE_EQ(start[Spent::kLost], 30);
  start.lose_after(15);  // newer checkpoints turned out to be damaged
  EXPECT_DOUBLE_EQ(start[Spent::kLost], 55);
  EXPECT_DOUBLE_EQ(start[Spent::kTrain], 25);
}

TEST(Goodput, SumsOverAllStarts) {
  Goodput goodput{{killed_start(), killed_start()}};
  goodput.starts[0].lose_after(30);
  goodput.starts[1][Spent::kTrain] = 70;
  goodput.starts[1][Spent::kValidate] = 10;
  const auto json = nlohmann::json::parse(goodput.to_json());
  EXPECT_EQ(json["total"]["allocated"], 200);
  EXPECT_EQ(json["total"]["start"], 30);
  EXPECT_EQ(json["total"]["train"], 120);
  EXPECT_EQ(json["total"]["lost"], 30);
  EXPECT_EQ(json["goodput"], 0.65) << "training and validation";
  EXPECT_EQ(goodput.summary(),
            "goodput 65 % of 200 s in 2 starts: start 30, train 120, validate 10, stall 10, lost 30, idle 0");
}

TEST(Goodput, ReadsWhatItWrote) {
  Goodput goodput{{killed_start()}};
  goodput.starts[0].took = {.step = 2.5, .save = {}, .validation = 7};
  const std::string text = goodput.to_json();
  const Goodput again = Goodput::parse(text);
  EXPECT_EQ(again.to_json(), text);
  EXPECT_EQ(again.starts[0].took.step, 2.5);
  EXPECT_EQ(again.starts[0].took.save, std::nullopt);
}

TEST(Goodput, OfARestartInPlaceIsReadAsItWasWritten) {
  Goodput goodput{{killed_start(), killed_start()}};
  goodput.starts[1].in_place = {.failed_s = 1099,
                                .cause = "node n1 is lost",
                                .left_out = {"n1"},
                                .nodes = {"n0", "n2"},
                                .redo_until = 35};
  goodput.starts[1][Spent::kRedo] = 12;
  const std::string text = goodput.to_json();
  const Goodput again = Goodput::parse(text);
  EXPECT_EQ(again.to_json(), text);
  EXPECT_EQ(again.restarts(), goodput.restarts());
  EXPECT_EQ(nlohmann::json::parse(again.restarts())["seconds"]["redo"], 12);
  EXPECT_EQ((Goodput{{killed_start()}}.restarts()), "");
}

TEST(Goodput, StepsThatWereDoneAgainInPlaceHaveNoTrainingToLose) {
  RunStart start = killed_start();
  start.in_place = {.redo_until = 35};
  start.saved_step = 38;  // 50 of the 80 s that the last five steps took
  for (const auto& [step, lost] :
       {std::pair{39, 15.0}, {38, 30.0}, {37, 80.0 - 50.0 * 2 / 3}, {35, 80.0}, {10, 80.0}}) {
    RunStart again = start;
    again.lose_after(step);
    EXPECT_NEAR(again[Spent::kLost], lost, 1e-9) << step;
  }
  start.in_place->redo_until = 60;  // it did not get that far
  start.lose_after(10);
  EXPECT_EQ(start[Spent::kLost], 0);
}

TEST(Goodput, RefusesEveryOtherFile) {
  const std::string whole = Goodput{{killed_start()}}.to_json();
  for (std::size_t size = 0; size + 2 < whole.size(); ++size)
    EXPECT_THROW((void)Goodput::parse(whole.substr(0, size)), Error) << size;
  for (const auto& [key, value] : {std::pair<const char*, nlohmann::json>{"ended", "soon"},
                                   {"ended", -1},
                                   {"job", 12},
                                   {"end", "tomorrow"},
                                   {"last_step", 1.5},
                                   {"last_step", 1e300},
                                   {"seconds", nullptr},
                                   {"restarted", {{"cause", 7}}},
                                   {"took", {1, 2, 3}}}) {
    auto json = nlohmann::json::parse(whole);
    json["starts"][0][key] = value;
    EXPECT_THROW((void)Goodput::parse(json.dump()), Error) << key << " " << value;
  }
  for (const char* text : {"[]", "{}", "7", "{\"starts\":{}}", "{\"starts\":[7]}", "{\"starts\":[{}]}"})
    EXPECT_THROW((void)Goodput::parse(text), Error) << text;
}

}  // namespace
}  // namespace echelon
