#include "app/submit/allocation.h"

#include <gtest/gtest.h>

#include "support/matches.h"
#include "unit/submit/requests.h"

namespace echelon::submit {
namespace {

/// A recipe whose batch fits `global` / (2 x ranks) passes.
Recipe with_batch(std::int64_t global, const std::string& device = "auto") {
  Recipe recipe;
  recipe.train.micro_batch_size = 2;
  recipe.train.global_batch_size = global;
  recipe.train.device = choice_of<TrainDevice>(device).value();
  return recipe;
}

std::string refusal(const Options& options, const Recipe& recipe) {
  return error_of([&] { return allocate(options, recipe); });
}

TEST(Allocation, IsNodesTimesTasks) {
  const Allocation job = allocate(four_nodes(), with_batch(16));
  EXPECT_EQ(job.ranks(), 8);
  EXPECT_EQ(job.gpus_per_node, 0);
  EXPECT_EQ(job.time_s, 86400);
  EXPECT_EQ(job.stop_before_s, 60);
  EXPECT_EQ(job.note, "");
}

TEST(Allocation, HasSpareNodesOnlyWhereTheyAreUsed) {
  Options options = four_nodes();
  options.spare_nodes = 2;
  const Allocation job = allocate(options, with_batch(16));
  EXPECT_EQ(job.ranks(), 8) << "spare nodes run none";
  EXPECT_EQ(job.spare_nodes, 2);
  options.max_restarts = 0;
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "2: --spare-nodes is 2, but --max-restarts 0");
  options.spare_nodes = -1;
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "2: --spare-nodes is -1; expected from 0 to");
}

TEST(Allocation, KnowsWithHowManyNodesARunThatMayShrinkGoesOn) {
  Recipe recipe = with_batch(48);
  recipe.shard.strategy = ShardStrategy::kHybridShard;
  EXPECT_TRUE(allocate(four_nodes(), recipe).fewer_nodes.empty()) << "the recipe does not allow it";
  recipe.cluster.shrink = Shrink::kAllow;
  EXPECT_EQ(allocate(four_nodes(), recipe).fewer_nodes, (std::vector<std::int64_t>{3, 2, 1}));
  recipe.train.global_batch_size = 16;
  EXPECT_EQ(allocate(four_nodes(), recipe).fewer_nodes, (std::vector<std::int64_t>{2, 1}))
      << "16 over 6 ranks";
  recipe.shard.mesh.shard = 4;
  EXPECT_EQ(allocate(four_nodes(), recipe).fewer_nodes, (std::vector<std::int64_t>{2}))
      << "a copy on two nodes";
  recipe.shard.mesh.replicate = 2;
  EXPECT_TRUE(allocate(four_nodes(), recipe).fewer_nodes.empty()) << "the recipe wants two copies";
}

TEST(Allocation, RefusesABatchThatDoesNotDivideOverTheRanks) {
  const std::string text = refusal(four_nodes(), with_batch(8));
  EXPECT_TRUE(text.starts_with("2: --nodes 4 x --tasks-per-node 2: train.global_batch_size is 8; ")) << text;
  EXPECT_MENTIONS(text, "16 or 32");
}

TEST(Allocation, RefusesAMeshThatDoesNotFit) {
  Recipe recipe = with_batch(16);
  recipe.shard.strategy = ShardStrategy::kHybridShard;
  recipe.shard.mesh.shard = 3;
  EXPECT_MENTIONS(refusal(four_nodes(), recipe), "shard.mesh");
}

TEST(Allocation, HasATaskForEachGpuUnlessItIsTold) {
  Options options = four_nodes();
  options.tasks_per_node = 0;
  EXPECT_EQ(allocate(options, with_batch(16)).tasks_per_node, 1);
  options.gpus_per_node = "h100:8";
  EXPECT_EQ(allocate(options, with_batch(64)).tasks_per_node, 8);
  options.gpus_per_node = "";
  options.gres = "lustre,gpu:a100:4";
  EXPECT_EQ(allocate(options, with_batch(32)).tasks_per_node, 4);
  options.gres = "gpu";
  EXPECT_EQ(allocate(options, with_batch(32)).gpus_per_node, 1);
  options.gres = "gpu:2";
  EXPECT_EQ(allocate(options, with_batch(32)).gpus_per_node, 2);
}

TEST(Allocation, RefusesMoreTasksThanGpus) {
  Options options = four_nodes();
  options.gpus_per_node = "1";
  EXPECT_EQ(refusal(options, with_batch(16)),
            "2: --tasks-per-node is 2, and a node gets 1 GPU; expected one GPU for each task: request 2 "
            "GPUs, start at "
            "most 1 task, or let tasks share with train.device=cuda_shared");
  EXPECT_EQ(refusal(options, with_batch(16, "cuda_shared")), "");
}

TEST(Allocation, RefusesGpusThatNothingWouldUseAndNotesThoseThatStayIdle) {
  Options options = four_nodes();
  options.gpus_per_node = "8";
  EXPECT_MENTIONS(refusal(options, with_batch(16, "cpu")), "requests 8 GPUs per node, which would stay idle");
  EXPECT_EQ(allocate(options, with_batch(16)).note,
            "6 of 8 GPUs of each node stay idle: one task uses one GPU, and there are 2");
  options.gpus_per_node = "";
  EXPECT_MENTIONS(refusal(options, with_batch(16, "cuda")), "requests no GPUs: add --gpus-per-node N");
  options.gpus_per_node = "2";
  options.gres = "gpu:2";
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "both request GPUs");
  for (const char* bad : {"0", "-1", "8:h100", "h100:", "h100:0", "1000", "eight", "8 ", "h100:8:1"}) {
    options = four_nodes();
    options.gpus_per_node = bad;
    EXPECT_TRUE(refusal(options, with_batch(16)).starts_with("2: --gpus-per-node is '")) << bad;
  }
  options = four_nodes();
  options.gres = "gpu:h100:x";
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "--gres holds 'gpu:h100:x'");
}

TEST(Allocation, LeavesTimeForTheStop) {
  Options options = four_nodes();
  options.time = "10";
  EXPECT_EQ(allocate(options, with_batch(16)).stop_before_s, 60);
  options.time = "3";
  EXPECT_EQ(allocate(options, with_batch(16)).stop_before_s, 45);  // a quarter
  options.time = "10";
  options.stop_before_s = 539;
  EXPECT_EQ(allocate(options, with_batch(16)).stop_before_s, 539);
  options.stop_before_s = 540;  // and 60 s that Slurm may be early: nothing left
  EXPECT_MENTIONS(refusal(options, with_batch(16)),
                  "no time is left to train; expected --stop-before below 540, or more time");
  options.stop_before_s = -1;
  options.time = "1";
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "no time is left to train; expected more time");
  options.time = "10";
  for (const std::int64_t bad : {0, 65'536}) {
    options.stop_before_s = bad;
    EXPECT_MENTIONS(refusal(options, with_batch(16)), "expected from 1 to 65535 seconds") << bad;
  }
}

TEST(Allocation, RefusesMoreRanksThanAJobCanHave) {
  Options options = four_nodes();
  options.nodes = 100'000;
  options.tasks_per_node = 1024;
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "expected from 1 to 1,000,000 ranks");
  options = four_nodes();
  options.max_requeues = -1;
  EXPECT_MENTIONS(refusal(options, with_batch(16)), "--max-requeues is -1");
}

TEST(Time, IsReadAsSlurmReadsIt) {
  const std::pair<const char*, const char*> times[] = {
      {"90", "0-01:30:00"},         {"90:30", "0-01:31:00"}, {"1:30:00", "0-01:30:00"},
      {"24:00:00", "1-00:00:00"},   {"2-12", "2-12:00:00"},  {"2-12:30", "2-12:30:00"},
      {"2-12:30:01", "2-12:31:00"}, {"0:01", "0-00:01:00"},  {"366-0", "366-00:00:00"}};
  for (const auto& [text, written] : times) EXPECT_EQ(slurm_time(seconds_of(text)), written) << text;
}

TEST(Time, RefusesWhatIsNone) {
  for (const char* bad : {"", "0", "0:00", "-1", "1:2:3:4", "1-2:3:4:5", "1 2", "1h", "UNLIMITED", "367-0",
                          "1:", ":1", "9999999", "1.5", "1-", "\n1", "1\n"})
    EXPECT_TRUE(error_of([&] { return seconds_of(bad); }).starts_with("2: --time is '")) << bad;
}

TEST(Array, ListsItsTasks) {
  EXPECT_EQ(array_tasks("3"), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(array_tasks("0-3%2"), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(array_tasks("7,1-5:2,1"), (std::vector<std::int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(array_tasks("1-1000").size(), 1000U);
}

TEST(Array, RefusesWhatIsNone) {
  for (const char* bad : {"", "a", "1-", "-1", "1,,2", "1-2:0", "1%0", "1%", "5-1", "0-1000", "1-9999999",
                          "1 2", "1;id", "99999999", "1-2-3", "1:2", "1\n"})
    EXPECT_TRUE(error_of([&] { return array_tasks(bad); }).starts_with("2: --array is '")) << bad;
}

TEST(Dependency, IsOneOfSlurms) {
  const auto fault = [](const std::string& text) { return error_of([&] { check_dependency(text); }); };
  for (const char* good : {"singleton", "afterok:17", "afterany:17:18", "after:17+5",
                           "afterok:1,afternotok:2_3", "afterok:1?afterany:2"})
    EXPECT_EQ(fault(good), "") << good;
  for (const char* bad :
       {"", "17", "afterok", "afterok:", "afterok:a", "afterok:1;id", "afterok:1,", "afterok:1?",
        "singleton:1", "afterok:1 ", "before:1", "afterok:1,afterok:2?afterok:3"})
    EXPECT_TRUE(fault(bad).starts_with("2: --dependency is '")) << bad;
}

}  // namespace
}  // namespace echelon::submit
