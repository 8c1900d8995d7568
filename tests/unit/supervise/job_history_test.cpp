#include "app/supervise/job_history.h"

#include <gtest/gtest.h>

namespace echelon::supervise {
namespace {

TEST(FruitlessStarts, AreThoseInARowThatBeganAtTheNewestCheckpoint) {
  const auto count = [](const char* notes, std::int64_t committed) {
    return fruitless_starts(start_notes(notes), committed);
  };
  EXPECT_EQ(count("", 0), 0);
  EXPECT_EQ(count("start 0 1\nend 7 2\n", 0), 1);
  EXPECT_EQ(count("start 0 1\nend 7 2\nstart 0 3\nend 7 4\n", 0), 2);
  EXPECT_EQ(count("start 0 1\nend 7 2\nstart 0 3\nend 7 4\n", 10), 0) << "the last one made a checkpoint";
  EXPECT_EQ(count("start 0 1\nstart 10 2\nstart 10 3\n", 10), 2);
  EXPECT_EQ(count("start 0 1\nlost 3 1 n1 2\nend 7 2\nrestart 0 3\nend 7 4\n", 0), 1)
      << "a restart in place is part of its start";
  EXPECT_EQ(count("start 0 1\nstart 0 2\nheld 3\nstart 0 4\n", 0), 1) << "somebody released the job";
  EXPECT_EQ(count("start 0 1\nstart $(id) 2\nstart 0 3\n", 0), 2) << "not a note";
}

TEST(FailuresAtStep, AreThoseInARow) {
  const auto failures = [](const char* notes) {
    const FailuresAtStep found = failures_at_step(start_notes(notes));
    return std::pair(found.all, found.of_same);
  };
  EXPECT_EQ(failures("start 0 1\n"), std::pair(0, 0));
  EXPECT_EQ(failures("start 0 1\nlost 7 1 n1 2\n"), std::pair(1, 1));
  EXPECT_EQ(failures("start 0 1\nlost 7 1 n1 2\nrestart 0 3\nlost 7 2 n1 4\n"), std::pair(2, 2))
      << "one node";
  EXPECT_EQ(failures("start 0 1\nlost 7 1 n1 2\nrestart 0 3\nlost 7 1 n2 4\n"), std::pair(2, 2))
      << "one rank";
  EXPECT_EQ(failures("start 0 1\nlost 7 1 n1 2\nrestart 0 3\nlost 7 2 n2 4\n"), std::pair(2, 1));
  EXPECT_EQ(failures("start 0 1\nlost 7 1 n1 2\nrestart 0 3\nlost 8 1 n1 4\n"), std::pair(1, 1));
  EXPECT_EQ(failures("start 0 1\nlost 7 1 n1 2\nlost 8 1 n1 3\nlost 7 1 n1 4\n"), std::pair(1, 1));
  EXPECT_EQ(failures("start 0 1\nlost - - - 2\nrestart 0 3\nlost - - - 4\n"), std::pair(2, 0));
  EXPECT_EQ(failures("start 0 1\nlost - - - 2\nrestart 5 3\nlost - - - 4\n"), std::pair(1, 0))
      << "a checkpoint lies between them";
  EXPECT_EQ(failures("start 7 1\nlost - - - 2\nrestart 7 3\nlost 7 1 n1 4\n"), std::pair(1, 1))
      << "at step 7 is not after the checkpoint of step 7";
}

TEST(LeftOutBefore, AreTheNodesThatTheJobHasEverBeenRequeuedWithout) {
  EXPECT_EQ(left_out_before(start_notes("start 0 1\nlost 3 1 n1 2\nend 7 3\nleft-out n1 3\nleft-out n2 3\n"
                                        "start 9 4\nend 85 5\nleft-out n3 5\n")),
            (Nodes{"n1", "n2", "n3"}));
}

}  // namespace
}  // namespace echelon::supervise
