#include "profile/clocks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/local_communicator.h"

namespace echelon::profile {
namespace {

/// Exchanges of two ranks; rank 1's clock is ahead. A rank has the result `travel` after the later one issued
/// it, and what each took longer in vain.
struct Exchanges {
  explicit Exchanges(double ahead_s) : ahead(ahead_s) {}
  void add(double issued_0, double issued_1, double travel, double late_0, double late_1) {
    const double together = std::max(issued_0, issued_1) + travel;
    rank_0.issued_s.push_back(issued_0);
    rank_0.done_s.push_back(together + late_0);
    rank_1.issued_s.push_back(issued_1 + ahead);
    rank_1.done_s.push_back(together + late_1 + ahead);
  }
  double ahead;
  ExchangeTimes rank_0;
  ExchangeTimes rank_1;
};

TEST(ClockOffsets, TheTruthLiesWithinTheUncertainty) {
  Exchanges exchanges(1234.5);
  exchanges.add(0, 0.3, 0.01, 0.2, 0);
  exchanges.add(1, 0.2, 0.02, 0, 0.4);
  exchanges.add(2, 2.001, 0.004, 0.001, 0.002);
  const ClockOffset found = offset_of(exchanges.rank_0, exchanges.rank_1);
  EXPECT_LE(std::abs(found.offset_s - 1234.5), found.uncertainty_s + 1e-9);
  EXPECT_LT(found.uncertainty_s, 0.01) << "the shortest exchange counts, not their mean";
  const ClockOffset back = offset_of(exchanges.rank_1, exchanges.rank_0);
  EXPECT_NEAR(back.offset_s, -found.offset_s, 1e-9);
}

TEST(ClockOffsets, OneRankHasNone) {
  LocalCommunicator alone;
  const auto offsets = measure_clocks(alone);
  ASSERT_EQ(offsets.size(), 1U);
  EXPECT_EQ(offsets[0].offset_s, 0);
  EXPECT_EQ(offsets[0].uncertainty_s, 0);
}

}  // namespace
}  // namespace echelon::profile
