#include "shard/prefetch_order.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(PrefetchOrder, KnowsWhatThePassBeforeDid) {
  PrefetchOrder order({4, 2, 7});
  EXPECT_EQ(order.ahead(1), 4U);
  order.use(4);
  EXPECT_EQ(order.ahead(1), 2U);
  EXPECT_EQ(order.ahead(2), 7U);
  EXPECT_FALSE(order.ahead(3));
}

TEST(PrefetchOrder, AModuleThatRunsTwiceStandsInItTwice) {
  PrefetchOrder order;
  for (const std::size_t unit : {1U, 2U, 1U, 3U}) order.use(unit);
  order.restart();
  order.use(1);
  EXPECT_EQ(order.ahead(1), 2U);
  order.use(2);
  EXPECT_EQ(order.ahead(1), 1U);
  order.use(1);
  EXPECT_EQ(order.ahead(1), 3U);
}

TEST(PrefetchOrder, APassThatGoesAnotherWayIsRecordedFromThere) {
  PrefetchOrder order({1, 2, 3});
  order.use(1);
  order.use(3);
  EXPECT_FALSE(order.ahead(1));
  order.use(4);
  order.restart();
  EXPECT_EQ(order.ahead(1), 1U);
  EXPECT_EQ(order.ahead(2), 3U);
  EXPECT_EQ(order.ahead(3), 4U);
  EXPECT_FALSE(order.ahead(4));
}

}  // namespace
}  // namespace echelon
