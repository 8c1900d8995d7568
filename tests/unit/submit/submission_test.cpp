#include "app/submit/submission.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files/fs.h"
#include "recipe/load.h"
#include "support/matches.h"
#include "support/temp_dir.h"
#include "unit/submit/requests.h"

namespace echelon::submit {
namespace {

namespace stdfs = std::filesystem;

/// In a folder of its own, with a recipe whose batch fits eight ranks.
class Submissions : public ::testing::Test {
 protected:
  Submissions() : before_(stdfs::current_path()) {
    stdfs::current_path(dir_.path());
    std::ofstream("recipe.yaml") << "run: {name: small}\ndata: {kind: synthetic_tokens}\n"
                                    "train: {micro_batch_size: 1, global_batch_size: 8}\n";
  }
  ~Submissions() override { stdfs::current_path(before_); }

  static Options options(const std::vector<std::string>& overrides = {}, const std::string& array = "") {
    Options all = four_nodes();
    all.recipe = "recipe.yaml";
    all.overrides = overrides;
    all.array = array;
    return all;
  }
  [[nodiscard]] stdfs::path here() const { return stdfs::canonical(dir_.path()); }
  static std::string refusal(const Options& all) {
    return error_of([&] { return prepare(all); });
  }

 private:
  test::TempDir dir_;
  stdfs::path before_;
};

std::string text_of(const stdfs::path& file) {
  return fs::read_file(file, 1 << 20, Code::kUsage);
}

TEST_F(Submissions, KeepScriptAndResolvedRecipeInTheRunsFolder) {
  const Submission first = prepare(options({"optim.lr=0.5"}));
  EXPECT_FALSE(stdfs::exists("runs"));
  keep(first);
  const stdfs::path folder = here() / "runs/small/submissions/1";
  EXPECT_EQ(first.script_path(), folder / "job.sbatch");
  EXPECT_EQ(text_of(folder / "job.sbatch"), first.script);
  const LoadedRecipe kept = load_recipe(folder / "recipe.yaml", {});
  const LoadedRecipe given = load_recipe("recipe.yaml", {"optim.lr=0.5"});
  EXPECT_EQ(to_yaml(kept.recipe), to_yaml(given.recipe));
  // The ranks know what was set.
  EXPECT_EQ(kept.origins, given.origins);
  EXPECT_EQ(kept.origins.at("optim.lr"), "command line");
  EXPECT_EQ(kept.origins.at("optim.weight_decay"), "default");
  EXPECT_EQ(load_recipe(folder / "recipe.yaml", {"optim.weight_decay=0"}).origins.at("optim.weight_decay"),
            "command line");
  EXPECT_TRUE(stdfs::is_directory("runs/small/logs"));
  EXPECT_EQ(first.log_path("17"), here() / "runs/small/logs/slurm-17.out");
  // Another one does not touch what a job may still start from.
  const Submission second = prepare(options());
  keep(second);
  EXPECT_EQ(second.script_path(), here() / "runs/small/submissions/2/job.sbatch");
  EXPECT_EQ(text_of(folder / "job.sbatch"), first.script);
  EXPECT_MENTIONS(error_of([&] { keep(second); }), "another submit has just made it");
}

TEST_F(Submissions, SpeakOfTheRecipeBeforeAnythingElse) {
  EXPECT_MENTIONS(refusal(options({"optim.learning_rate=1"})), "optim.lr");
  EXPECT_TRUE(
      refusal(options({"train.global_batch_size=12"})).starts_with("2: --nodes 4 x --tasks-per-node 2: "));
}

TEST_F(Submissions, RefuseFoldersAndNamesThatNoScriptMayHold) {
  EXPECT_TRUE(refusal(options({"run.dir=runs/a b"})).starts_with("2: run.dir is "));
  EXPECT_TRUE(refusal(options({"run.dir=runs/a;id"})).starts_with("2: run.dir is "));
  Options all = options();
  all.job_name = "$(id)";
  EXPECT_TRUE(refusal(all).starts_with("2: --job-name is "));
  all = options();
  all.program = "./no such";
  EXPECT_TRUE(refusal(all).starts_with("3: --program './no such' does not exist"));
  stdfs::create_directory("with blank");
  stdfs::current_path("with blank");
  std::ofstream("recipe.yaml") << "data: {kind: synthetic_tokens}\n";
  EXPECT_TRUE(refusal(options()).starts_with("2: the current folder is "));
}

TEST_F(Submissions, OfAnArrayHaveARunForEachTask) {
  Options all = options({"run.dir=runs/try-{task}", "run.seed={task}"}, "2,5");
  const Submission submission = prepare(all);
  keep(submission);
  ASSERT_EQ(submission.runs.size(), 2U);
  EXPECT_EQ(load_recipe("runs/try-2/submissions/1/recipe.yaml", {}).recipe.run.seed, 2);
  EXPECT_EQ(load_recipe("runs/try-5/submissions/1/recipe.yaml", {}).recipe.run.seed, 5);
  EXPECT_EQ(text_of("runs/try-5/submissions/1/job.sbatch"), submission.script);
  EXPECT_EQ(submission.log_path("17"), here() / "runs/try-2/logs/slurm-17_*.out");
  // The number of a submission is the same in all runs.
  all.array = "5,6";
  keep(prepare(all));
  EXPECT_TRUE(stdfs::exists("runs/try-6/submissions/2/job.sbatch"));
}

TEST_F(Submissions, OfASweepHaveARunForEachValue) {
  Options all = options({"run.seed={task}"}, "optim.lr=1e-3,0.5%1");
  const Submission submission = prepare(all);
  keep(submission);
  ASSERT_EQ(submission.runs.size(), 2U);
  EXPECT_EQ(submission.runs[1].dir, here() / "runs/small-1");
  EXPECT_EQ(submission.swept, (std::vector<std::string>{"optim.lr=1e-3", "optim.lr=0.5"}));
  const LoadedRecipe second = load_recipe("runs/small-1/submissions/1/recipe.yaml", {});
  EXPECT_EQ(second.recipe.optim.lr, 0.5);
  EXPECT_EQ(second.recipe.run.seed, 1);
  EXPECT_EQ(second.origins.at("optim.lr"), "command line");
  EXPECT_MENTIONS(submission.script, "\n#SBATCH --array=0-1%1\n");
  all.overrides.emplace_back("run.dir=runs/lr-{task}");
  EXPECT_EQ(prepare(all).runs[0].dir, here() / "runs/lr-0");
  all.array = "optim.learning_rate=1,2";
  EXPECT_MENTIONS(refusal(all), "task 0: command line: 'optim.learning_rate=1'");
}

TEST_F(Submissions, RefuseATaskThatTheRecipeItselfHolds) {
  std::ofstream("recipe.yaml") << "run: {name: small, dir: \"runs/try-{task}\"}\n"
                                  "data: {kind: synthetic_tokens}\n"
                                  "train: {micro_batch_size: 1, global_batch_size: 8}\n";
  for (const char* array : {"", "0-3%1", "0-3"}) {
    EXPECT_MENTIONS(refusal(options({}, array)),
                    "run.dir is \"runs/try-{task}\": {task} is replaced by the task's number in "
                    "overrides only",
                    "recipe.yaml:")
        << array;
  }
  EXPECT_EQ(prepare(options({"run.dir=runs/try-{task}"}, "0-3")).runs.size(), 4U) << "the override wins";
}

TEST_F(Submissions, OfAnArrayNameItsRunsByRunName) {
  EXPECT_EQ(prepare(options({"run.name=try-{task}"}, "1")).runs[0].dir, here() / "runs/try-1");
}

TEST_F(Submissions, OfAnArrayDoNotShareARunAtTheSameTime) {
  EXPECT_EQ(
      refusal(options({}, "0-3")),
      "2: --array 0-3: its tasks would train in the run folder '" + (here() / "runs/small").string() +
          "' at the same time; give each its own with {task} in run.dir, or run them one after the other "
          "with --array 0-3%1");
  EXPECT_NE(refusal(options({}, "0-3%2")), "");
  EXPECT_EQ(prepare(options({}, "0-3%1")).runs.size(), 1U);
  EXPECT_MENTIONS(refusal(options({"run.seed={task}"}, "0-3%1")),
                  "the recipe of task 1 differs from that of task 0");
  EXPECT_MENTIONS(refusal(options({"run.dir=\"runs/try-{task}\""}, "0-3")),
                  "write {task} into run.dir, without quotes");
  EXPECT_MENTIONS(refusal(options({"run.seed={task}"})), "but this job has no array: add --array");
}

TEST_F(Submissions, WarnOfFoldersThatNodesDoNotShare) {
  const bool warned =
      prepare(options()).job.note.find("in a folder that each node has for itself") != std::string::npos;
  EXPECT_EQ(warned, here().string().starts_with("/tmp/"));
}

}  // namespace
}  // namespace echelon::submit
