#include "app/supervise/rank_step.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/fs.h"
#include "base/str.h"
#include "support/matches.h"
#include "support/places.h"

namespace echelon::supervise {
namespace {

TEST(RankCommand, IsThatOfThePlainScript) {
  const std::string script =
      fs::read_file(fs::Path(test::source_dir()) / "cluster/slurm/plain.sbatch", 1 << 20, Code::kUsage);
  EXPECT_MENTIONS(script, "exec " + join(rank_command({}, {}, {}), " ") + " ");
}

TEST(RankCommand, NamesNodesAndTasksWhereTheyAreEqual) {
  EXPECT_EQ(join(rank_command({.nodes = {"n0", "n2"}, .tasks_per_node = 4, .in_place = true}, {"--x=y"},
                              {"echelon", "train", "a.yaml"}),
                 " "),
            "srun --mpi=pmix --kill-on-bad-exit=0 --wait=60 --export=ALL --cpu-bind=none --gpu-bind=none "
            "--nodes=2 --ntasks=8 "
            "--ntasks-per-node=4 --nodelist=n0,n2 --overlap --no-kill --wait=20 --x=y echelon train a.yaml");
}

TEST(RankEnvironment, IsThisOneWithChanges) {
  const auto found = environment_with({{"PATH", ""}, {"ECHELON_LEFT_OUT", "n1"}});
  EXPECT_EQ(std::count(found.begin(), found.end(), "ECHELON_LEFT_OUT=n1"), 1);
  EXPECT_TRUE(std::none_of(found.begin(), found.end(),
                           [](const std::string& text) { return text.starts_with("PATH="); }));
}

TEST(RankStep, TellsHowItsProgramEnded) {
  const std::vector<std::string> none{"A=b"};
  RankStep exits({"/bin/sh", "-c", "exit 7"}, none);
  EXPECT_TRUE(exits.wait(60));
  EXPECT_EQ(exits.status(), 7);
  EXPECT_TRUE(exits.wait(60)) << "still ended";
  RankStep killed({"/bin/sh", "-c", "kill -KILL $$"}, none);
  EXPECT_EQ(killed.status(), 137);
  EXPECT_THROW((void)RankStep({"/no/such/program"}, none).status(), Error);
}

// As srun does, which kills the ranks at SIGTERM.
TEST(RankStep, IsAskedToStopBySigusr2UntilItEnds) {
  RankStep waits(
      {"/bin/sh", "-c", "trap 'n=x$n; [ $n != xx ] || exit 85' USR2; while :; do sleep 0.01; done"}, {"A=b"});
  while (!waits.wait(0.05)) waits.ask_to_stop();
  EXPECT_EQ(waits.status(), 85);
}

TEST(RankStep, EndsWhenItIsAbandoned) {
  RankStep waits({"/bin/sleep", "600"}, {"A=b"});
  EXPECT_FALSE(waits.wait(0.05));
  waits.abandon();
  EXPECT_TRUE(waits.wait(60));
}

}  // namespace
}  // namespace echelon::supervise
