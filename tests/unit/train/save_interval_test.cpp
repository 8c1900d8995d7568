#include "train/save/save_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace echelon {
namespace {

TEST(SavesBesideTraining, NeedACopyOfTheStateBeforeTheLastStep) {
  struct Row {
    CheckpointOptions options;
    std::int64_t step, last_step;
    bool beside;
  };
  for (const auto& [options, step, last_step, beside] :
       std::vector<Row>{{{.every_steps = 10, .async = true}, 0, 11, true},
                        {{.every_steps = 10, .async = true}, 0, 10, false},  // the last one is waited for
                        {{.every_steps = 10, .async = true}, 10, 20, false},
                        {{.every_steps = 10, .async = false}, 0, 11, false},
                        {{.every_steps = 0, .async = true}, 0, 11, false},
                        {{.every_steps = 0, .every_minutes = 1, .async = true}, 0, 11, true},
                        {{.every_steps = 0, .auto_interval = true, .async = true}, 0, 11, true},
                        {{.every_steps = 0, .keep_best = true, .async = true}, 0, 11, true},
                        {{.every_steps = 0, .keep_best = true, .async = false}, 0, 11, false},
                        {{.every_steps = 0, .async = false, .memory_every_steps = 5}, 0, 11, true},
                        {{.every_steps = 0, .async = false, .memory_every_steps = 11}, 0, 11, false}})
    EXPECT_EQ(saves_beside_training(options, step, last_step), beside)
        << options.every_steps << ' ' << options.memory_every_steps << ' ' << step;
}

TEST(SaveInterval, IsNoneWhenSavesGoBySteps) {
  SaveInterval interval({});
  interval.begin(0);
  EXPECT_EQ(interval.seconds(), std::nullopt);
  EXPECT_FALSE(interval.due(1e9));
}

TEST(SaveInterval, CountsFromTheStartAndThenFromTheBeginOfTheLastSave) {
  SaveInterval interval({.every_minutes = 2});
  interval.begin(1000);
  EXPECT_FALSE(interval.due(1119));
  EXPECT_TRUE(interval.due(1120));
  interval.saved(1125, 0.1, 3);
  EXPECT_FALSE(interval.due(1244));
  EXPECT_TRUE(interval.due(1245));
}

TEST(SaveInterval, FollowsYoungFromWhatTheLastSaveCost) {
  SaveInterval interval({.auto_interval = true, .mean_time_to_failure_hours = 3});
  interval.begin(0);
  EXPECT_EQ(interval.seconds(), 60) << "soon, to measure";
  interval.saved(60, 0.1, 2);
  EXPECT_NEAR(*interval.seconds(), std::sqrt(2 * 0.1 * 3 * 3600), 1e-9);  // 46 s
  interval.saved(120, 0.4, 2);
  EXPECT_NEAR(*interval.seconds(), 2 * std::sqrt(2 * 0.1 * 3 * 3600), 1e-9);
}

TEST(SaveInterval, IsNeverShorterThanASaveTakes) {
  SaveInterval interval({.auto_interval = true, .mean_time_to_failure_hours = 1});
  interval.saved(0, 0.01, 300);
  EXPECT_EQ(interval.seconds(), 300);
}

TEST(SaveInterval, IsTheShorterOfTwoThatAreAskedFor) {
  SaveInterval interval({.every_minutes = 0.5, .auto_interval = true});
  EXPECT_EQ(interval.seconds(), 30);
}

}  // namespace
}  // namespace echelon
