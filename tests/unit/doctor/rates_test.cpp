#include "app/doctor/rates/rates.h"

#include <gtest/gtest.h>

#include <set>

#include "app/doctor/rates/pairs.h"

namespace echelon::app::doctor {
namespace {

Finding judge(const std::vector<Rate>& rates) {
  return judge_rates("matmul", "computes", "GFLOP/s", rates, 0.7, "look");
}

TEST(Rates, NameTheNodesBelowTheShareOfTheMedian) {
  const Finding finding = judge({{"n0", 100}, {"n1", 95}, {"n2", 60}, {"n3", 71}, {"n4", 104}});
  EXPECT_EQ(finding.verdict, Verdict::kFault);
  EXPECT_EQ(finding.nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(finding.text, "n2 computes 60 GFLOP/s, others 95");
  EXPECT_EQ(finding.values["n4"], 104);
}

TEST(Rates, NameTheSlowerOfTwo) {
  EXPECT_EQ(judge({{"n0", 50}, {"n1", 100}}).nodes, std::vector<std::string>{"n0"});
  EXPECT_EQ(judge({{"n0", 80}, {"n1", 100}}).verdict, Verdict::kOk);
}

TEST(Rates, HaveNothingToCompareOneNodeWith) {
  const Finding finding = judge({{"n0", 12.3456}});
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_EQ(finding.text, "n0 computes 12.3 GFLOP/s");
}

TEST(Pairs, EveryoneMeetsEveryoneOnce) {
  for (int places = 2; places <= 9; ++places) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < rounds_of(places); ++round) {
      int pauses = 0;
      for (int me = 0; me < places; ++me) {
        const int partner = partner_of(me, places, round);
        pauses += partner < 0 ? 1 : 0;
        if (partner < 0) continue;
        EXPECT_NE(partner, me);
        EXPECT_EQ(partner_of(partner, places, round), me) << places << " places, round " << round;
        EXPECT_TRUE(met.insert({me, partner}).second) << me << " meets " << partner << " again";
      }
      EXPECT_EQ(pauses, places % 2);
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(places * (places - 1)));
  }
}

}  // namespace
}  // namespace echelon::app::doctor
