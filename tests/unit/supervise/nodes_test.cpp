#include "app/supervise/nodes.h"

#include <gtest/gtest.h>

namespace echelon::supervise {
namespace {

TEST(ChooseNodes, TakesThoseOfTheLastStartBeforeSpareOnes) {
  const Nodes all{"n0", "n1", "n2", "n3"};
  const auto choose = [&](const Nodes& before, const std::set<std::string>& clear, std::int64_t wanted,
                          const std::vector<std::int64_t>& fewer = {}) {
    return choose_nodes(all, before, clear, wanted, fewer);
  };
  EXPECT_EQ(choose({"n0", "n1"}, {"n0", "n1", "n2", "n3"}, 2), (Nodes{"n0", "n1"}));
  EXPECT_EQ(choose({"n0", "n1"}, {"n0", "n2", "n3"}, 2), (Nodes{"n0", "n2"}));
  EXPECT_EQ(choose({"n2", "n3"}, {"n0", "n3"}, 2), (Nodes{"n0", "n3"})) << "in the order of the job";
  EXPECT_EQ(choose({"n0", "n1", "n2"}, {"n0", "n2"}, 3), Nodes{}) << "too few";
  EXPECT_EQ(choose({"n0", "n1", "n2"}, {"n0", "n2"}, 3, {1, 2}), (Nodes{"n0", "n2"}));
  EXPECT_EQ(choose({"n0", "n1", "n2"}, {"n2"}, 3, {2}), Nodes{});
  EXPECT_EQ(choose({"n0", "n1"}, {"n0", "n9"}, 2), Nodes{}) << "a node that is not the job's";
}

TEST(UsableNodes, AnswerAndAreNotGivenUp) {
  for (const char* state : {"idle", "mix", "mixed", "allocated", "completing", "planned", "reserved", "mix-"})
    EXPECT_TRUE(is_usable(state, false)) << state;
  for (const char* state : {"mix*", "down", "down*", "drained", "draining", "fail", "idle*", "", "unknown"})
    EXPECT_FALSE(is_usable(state, false)) << state;
  EXPECT_TRUE(is_usable("draining", true));
  EXPECT_FALSE(is_usable("draining*", true));
}

TEST(Suspects, AreTheLinesOfTheirFile) {
  const auto found = parse_suspects("100 n1 17 no sign\n\nx n2 17 no sign\n200.5 n3\ntorn");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].host, "n1");
  EXPECT_EQ(found[1].time_s, 200.5);
}

struct Case {
  const char* why;
  std::vector<Suspect> suspects;
  Nodes already;
  std::int64_t needed;
  Nodes out;
};

TEST(LeftOut, AreTheNewestSuspectsAsFarAsTheJobCanDoWithoutThem) {
  constexpr double kNow = 1'000'000;
  std::vector<NodeState> partition;
  for (int n = 0; n < 8; ++n) {
    const std::string name = "n" + std::to_string(n);
    partition.push_back({.name = name, .host = "host-" + name, .state = n == 7 ? "down*" : "idle"});
  }
  const std::vector<Case> cases{
      {"nobody is suspected", {}, {"n3"}, 2, {"n3"}},
      {"a node by its name, and by a long name",
       {{kNow, "n1"}, {kNow, "n2.cluster.local"}},
       {},
       2,
       {"n2", "n1"}},
      {"a node by its host name", {{kNow, "host-n4"}}, {}, 2, {"n4"}},
      {"a day later it is used again", {{kNow - 86'401, "n1"}}, {}, 2, {}},
      {"only the newest line of a node counts", {{kNow - 90'000, "n1"}, {kNow, "n1"}}, {}, 2, {"n1"}},
      {"a quarter of the partition", {{kNow, "n1"}, {kNow, "n2"}, {kNow, "n3"}}, {}, 2, {"n3", "n2"}},
      {"not a node that the job needs", {{kNow, "n1"}}, {}, 7, {}},
      {"what the user leaves out counts", {{kNow, "n1"}}, {"n5"}, 6, {"n5"}},
      {"a node that is down costs nothing", {{kNow, "n7"}}, {}, 7, {"n7"}},
      {"the user leaves out what was suspect once", {{kNow - 86'401, "n1"}}, {"n1", "n5"}, 2, {"n1", "n5"}},
      {"or still is", {{kNow, "n2"}, {kNow, "n1"}}, {"n1"}, 2, {"n1", "n2"}},
      {"unknown", {{kNow, "m1"}, {kNow, "$(id)"}}, {}, 2, {}},
  };
  for (const Case& c : cases)
    EXPECT_EQ(left_out(partition, c.already, c.suspects, kNow, c.needed), c.out) << c.why;
  EXPECT_EQ(left_out({}, {"n1"}, {{kNow, "n2"}}, kNow, 1), Nodes{"n1"}) << "sinfo did not answer";
}

}  // namespace
}  // namespace echelon::supervise
