#include "run/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

double sum(const nlohmann::json& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0,
                         [](double sum, const nlohmann::json& value) { return sum + value.get<double>(); });
}

/// A run's folder and a clock that goes only when it is told to.
struct RunFiles {
  test::TempDir folder;
  std::shared_ptr<std::atomic<double>> now = std::make_shared<std::atomic<double>>(1000);

  std::unique_ptr<Ledger> start(double began = 0, std::int64_t ranks = 2) {
    return std::make_unique<Ledger>(
        file(), Ledger::Start{.run = {.job = "12", .ranks = ranks, .began_s = began}}, clock());
  }
  std::function<double()> clock() const {
    return [now = now] { return now->load(); };
  }
  void pass(double seconds) { now->store(now->load() + seconds); }
  std::filesystem::path file() const { return folder.path() / "goodput.json"; }
  nlohmann::json read() const { return nlohmann::json::parse(fs::read_file(file(), 1 << 20, Code::kUsage)); }
  /// What is read, in which every second is accounted for.
  nlohmann::json read_whole() const {
    nlohmann::json ledger = read();
    double allocated = 0;
    for (const auto& start : ledger["starts"]) {
      const double took = start["ended"].get<double>() - start["began"].get<double>();
      EXPECT_NEAR(sum(start["seconds"]), took, 0.005) << start;
      allocated += took;
    }
    EXPECT_NEAR(ledger["total"]["allocated"].get<double>(), allocated, 0.005);
    return ledger;
  }
  /// What the batch script has noted of its starts.
  void note(const std::string& starts) const {
    std::filesystem::create_directory(folder.path() / "logs");
    std::ofstream(folder.path() / "logs/starts-12.txt") << starts;
  }
  /// As a process leaves it that is killed: the file is kept, whatever this object does later.
  void kill(std::unique_ptr<Ledger>& ledger) {
    ledger->end(StartEnd::kFailed);
    auto json = read();
    json["starts"].back()["end"] = "running";
    ledger.reset();
    fs::publish_file(file(), json.dump(), Code::kUsage);
  }
};

struct LedgerOfARun : ::testing::Test {
  RunFiles run;
};

TEST_F(LedgerOfARun, WithoutAFileNeverBegins) {
  Ledger ledger;
  ledger.begin();
  {
    const SpentOn training(ledger, Spent::kTrain);
    ledger.resumed(3);
    ledger.trained(4);
  }
  ledger.end(StartEnd::kFinished);
  EXPECT_FALSE(ledger.has_begun());
  EXPECT_FALSE(ledger.last_end());
}

TEST_F(LedgerOfARun, AccountsForEverySecondFromTheBatchScriptsStart) {
  {
    const auto ledger = run.start(990);
    run.pass(2);
    ledger->resumed(0);
    {
      const SpentOn training(*ledger, Spent::kTrain);
      run.pass(30);
      {
        const SpentOn validating(*ledger, Spent::kValidate);
        run.pass(5);
      }
      ledger->trained(3);
      {
        const SpentOn saving(*ledger, Spent::kStall);
        ledger->saving(3);
        run.pass(4);
        ledger->saved(3);
      }
    }
    run.pass(1);
    ledger->end(StartEnd::kFinished);
    run.pass(100);
    ledger->end(StartEnd::kFailed);  // the first word counts
  }
  const auto json = run.read_whole();
  const auto& start = json["starts"][0];
  EXPECT_EQ(start["job"], "12");
  EXPECT_EQ(start["began"], 990);
  EXPECT_EQ(start["ended"], 1042);
  EXPECT_EQ(start["end"], "finished");
  EXPECT_EQ(start["last_step"], 3);
  EXPECT_EQ(start["saved_step"], 3);
  EXPECT_EQ(start["seconds"],
            nlohmann::json(
                {{"start", 13}, {"train", 30}, {"validate", 5}, {"stall", 4}, {"lost", 0}, {"idle", 0}}));
}

TEST_F(LedgerOfARun, AStartThatWasKilledIsClosedByTheNextAndItsUnsavedStepsAreLost) {
  auto killed = run.start();
  killed->resumed(0);
  killed->enter(Spent::kTrain);
  run.pass(50);
  killed->saving(5);
  run.pass(20);
  killed->saved(5);  // training went on beside the save
  killed->trained(7);
  killed->took({.step = 10, .save = 3, .validation = {}});
  run.kill(killed);
  run.pass(60);  // in the queue
  const auto next = run.start(run.now->load() - 1);
  EXPECT_TRUE(next->last_end());
  EXPECT_EQ(next->earlier().step, 10);
  EXPECT_EQ(next->earlier().save, 3);
  next->resumed(5);
  next->end(StartEnd::kStopped);
  const auto json = run.read_whole();
  EXPECT_EQ(json["starts"][0]["end"], "killed");
  EXPECT_EQ(json["starts"][0]["seconds"]["lost"], 20);
  EXPECT_EQ(json["starts"][0]["seconds"]["train"], 50);
  EXPECT_EQ(json["starts"][1]["first_step"], 5);
  EXPECT_EQ(json["starts"][1]["end"], "stopped");
}

TEST_F(LedgerOfARun, WhatOtherNumbersOfRanksTookIsNoForecast) {
  run.start(0, 2)->took({.step = 10, .save = {}, .validation = 7});
  run.start(0, 2)->took({.step = {}, .save = 3, .validation = 8});
  EXPECT_EQ(run.start(0, 4)->earlier().step, std::nullopt);
  const Durations known = run.start(0, 2)->earlier();
  EXPECT_EQ(known.step, 10);
  EXPECT_EQ(known.save, 3);
  EXPECT_EQ(known.validation, 8);
}

TEST_F(LedgerOfARun, NoSecondBelongsToTwoStarts) {
  run.start(900);
  run.pass(10);
  run.start(900);  // the same script started the run once more
  const auto json = run.read_whole();
  EXPECT_EQ(json["starts"][1]["began"], 1000);
  EXPECT_EQ(json["starts"][0]["end"], "failed") << "nobody said how it ended";
}

/// Seconds that the next start adds to one that began at 1000 and gave its last account at 1030.
double leaving(const std::string& notes, double next_began, const std::string& next_job = "12") {
  RunFiles run;
  auto first = run.start(1000);
  run.pass(30);
  run.kill(first);
  run.note(notes);
  run.pass(5000);
  Ledger(run.file(), {.run = {.job = next_job, .began_s = next_began}}, run.clock()).end(StartEnd::kFinished);
  const auto json = run.read_whole();
  EXPECT_EQ(json["starts"][0]["end"], "killed");
  EXPECT_EQ(json["starts"][1]["began"], next_began);
  const double idle = json["starts"][0]["seconds"]["idle"];
  EXPECT_EQ(json["starts"][0]["ended"], 1030 + idle);
  return idle;
}

TEST_F(LedgerOfARun, AStartLastsUntilItsScriptSawAllRanksGo) {
  const std::string first = "start 0 1000\nend 85 1034.5\n";
  EXPECT_EQ(leaving(first + "start 5 2000\n", 2000), 4.5);
  EXPECT_EQ(leaving(first + "start 5 1500\nend 1 1510\nstart 5 2000\n", 2000), 4.5)
      << "one that died too early for an account lies between";
  EXPECT_EQ(leaving(first, 1032), 2) << "no second belongs to two starts";
  EXPECT_EQ(leaving(first, 2000, "13"), 0) << "another job, which knows nothing of this one";
  EXPECT_EQ(leaving("start 0 1000\nend 85 1029\nstart 5 2000\n", 2000), 0) << "before the last account";
  EXPECT_EQ(leaving("start 0 1000\nend 85 1631\nstart 5 2000\n", 2000), 0) << "too long for ranks to leave";
  EXPECT_EQ(leaving("start 0 1000\nend 85 10", 2000), 0) << "torn";
  EXPECT_EQ(leaving("", 2000), 0);
}

TEST_F(LedgerOfARun, TimeSinceAPeerHungWentToItsDetectionWhateverWasThoughtOfItThen) {
  const auto ledger = run.start(1000);
  ledger->enter(Spent::kTrain);
  run.pass(30);
  ledger->enter(Spent::kStall);
  run.pass(10);
  ledger->enter(Spent::kTrain);
  run.pass(20);
  ledger->stood_still_since(1035);
  ledger->enter(Spent::kStart);  // on the way out
  run.pass(3);
  ledger->end(StartEnd::kFailed);
  const auto json = run.read_whole();
  EXPECT_EQ(
      json["starts"][0]["seconds"],
      nlohmann::json::parse(R"({"start": 0, "train": 30, "validate": 0, "stall": 5, "lost": 0, "idle": 0,
                                    "detect": 25, "leave": 3})"));
}

/// The start of a job that its script makes in place after the one before.
Ledger::Start in_place(double began, double ran) {
  const InPlace restarted{
      .failed_s = 1055, .cause = "rank 1 has died", .left_out = {"n1"}, .nodes = {"n0", "n2"}};
  return {.run = {.job = "12", .ranks = 2, .began_s = began, .in_place = restarted}, .ran_s = ran};
}

TEST_F(LedgerOfARun, ARestartInPlaceAccountsForItsPhasesAndStepsDoneAgainAreNotLost) {
  run.note("start 0 1000\nlost 7 1 n1 1056\nend 7 1058\nrestart 5 1058\n");
  auto first = run.start(1000);
  first->resumed(0);
  first->enter(Spent::kTrain);
  for (std::int64_t step = 1; step <= 6; ++step) {
    run.pass(9);
    first->trained(step);
    if (step == 5) first->saving(5);
  }
  run.now->store(1055);  // in the seventh step, of which nothing stays
  run.kill(first);
  run.now->store(1062);
  auto second = std::make_unique<Ledger>(run.file(), in_place(1058, 1060), run.clock());
  second->resumed(5);
  run.pass(3);  // 1065
  second->enter(Spent::kTrain);
  for (std::int64_t step = 6; step <= 8; ++step) {
    run.pass(10);
    second->trained(step);
  }
  second->enter(Spent::kStart);
  run.pass(1);
  second->end(StartEnd::kFinished);
  const auto json = run.read_whole();
  EXPECT_EQ(json["starts"][0]["seconds"]["lost"], 0);
  EXPECT_EQ(json["starts"][0]["seconds"]["detect"], 1) << "until the script knew";
  EXPECT_EQ(json["starts"][0]["seconds"]["leave"], 2);
  EXPECT_EQ(json["starts"][0]["ended"], 1058);
  const auto& mine = json["starts"][1];
  EXPECT_EQ(mine["in_place"], true);
  EXPECT_EQ(mine["began"], 1058);
  EXPECT_EQ(mine["seconds"], nlohmann::json::parse(
                                 R"({"start": 1, "train": 20, "validate": 0, "stall": 0, "lost": 0, "idle": 0,
                                      "launch": 2, "load": 5, "redo": 10})"))
      << "step 6 was trained before";
  const auto told =
      nlohmann::json::parse(fs::read_file(run.folder.path() / "logs/restarts.jsonl", 1 << 20, Code::kUsage));
  EXPECT_EQ(told, nlohmann::json(
                      {{"time", 1058},
                       {"job", "12"},
                       {"cause", "rank 1 has died"},
                       {"left_out", {"n1"}},
                       {"nodes", {"n0", "n2"}},
                       {"seconds", {{"detect", 1}, {"leave", 2}, {"launch", 2}, {"load", 5}, {"redo", 10}}},
                       {"from_step", 6},
                       {"resumed_step", 5}}));
}

TEST_F(LedgerOfARun, AStartInPlaceThatDiedBeforeItsAccountIsPartOfTheNextOnesLaunch) {
  run.note(
      "start 0 1000\nlost - - - 1000\nend 7 1001\nrestart 0 1001\n"
      "lost - - - 1003\nend 7 1004\nrestart 0 1004\n");
  auto first = run.start(1000);
  run.kill(first);
  run.now->store(1008);
  Ledger(run.file(), in_place(1004, 1006), run.clock()).end(StartEnd::kFinished);
  const auto json = run.read_whole();
  EXPECT_EQ(json["starts"][1]["began"], 1001);
  EXPECT_EQ(json["starts"][1]["seconds"]["launch"], 5);
}

TEST_F(LedgerOfARun, TheFileIsRefreshedWhileNothingHappens) {
  const auto ledger = run.start(1000);
  for (int i = 0; i < 3; ++i) {
    run.pass(7);
    const double now = run.now->load();
    const auto told = [&] {
      return std::filesystem::exists(run.file()) && run.read()["starts"][0]["ended"].get<double>() == now;
    };
    while (!told())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // else the test's own limit ends it
    EXPECT_EQ(run.read()["starts"][0]["end"], "running");
  }
}

TEST_F(LedgerOfARun, AHeldStartIsInTheFileFromItsBeginningOrNotAtAll) {
  {
    const auto first = run.start(990);
    EXPECT_TRUE(first->has_begun());
    EXPECT_FALSE(first->last_end());
    first->end(StartEnd::kFinished);
  }
  const nlohmann::json before = run.read();
  const auto held = [&](double began) {
    return Ledger(run.file(), {.run = {.job = "12", .ranks = 2, .began_s = began}, .held = true},
                  run.clock());
  };
  {
    auto refused = held(1000);
    run.pass(10);
    refused.resumed(0);
    refused.end(StartEnd::kFailed);
    EXPECT_EQ(refused.last_end(), StartEnd::kFinished);
  }
  { const auto killed = held(1010); }
  EXPECT_EQ(run.read(), before);
  {
    auto late = held(1010);
    run.pass(10);
    late.begin();
    late.begin();
    run.pass(10);
    late.end(StartEnd::kStopped);
  }
  const nlohmann::json after = run.read_whole();
  ASSERT_EQ(after["starts"].size(), 2U);
  EXPECT_EQ(after["starts"][1]["end"], "stopped");
  EXPECT_EQ(after["starts"][1]["began"], 1010.0);
  EXPECT_EQ(after["starts"][1]["ended"], 1030.0);
}

TEST_F(LedgerOfARun, AForeignFileIsKeptAsideAndStopsNothing) {
  for (const char* text : {"{\"starts\": [", "no ledger"}) {
    std::ofstream(run.file()) << text;
    run.start();
    EXPECT_EQ(run.read()["starts"].size(), 1U);
  }
  EXPECT_EQ(fs::read_file(run.folder.path() / "goodput.json.unreadable-1", 100, Code::kUsage),
            "{\"starts\": [");
  EXPECT_EQ(fs::read_file(run.folder.path() / "goodput.json.unreadable-2", 100, Code::kUsage), "no ledger");
}

TEST_F(LedgerOfARun, AFolderThatTakesNoFileStopsNothing) {
  std::filesystem::create_directory(run.file());  // not even root can replace it by a file
  std::ofstream(run.file() / "x") << "x";
  const auto ledger = run.start();
  ledger->end(StartEnd::kFinished);
  EXPECT_NE(ledger->summary(), "");
}

}  // namespace
}  // namespace echelon
