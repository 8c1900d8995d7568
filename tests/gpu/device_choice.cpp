#include "app/engine/device_choice.h"

#include <gtest/gtest.h>

// Who gets which GPU: needs none.
namespace echelon::app {
namespace {

using Devices = std::vector<int>;

VisibleDevices on(const std::string& host, std::vector<std::string> ids) {
  return {.host = host, .ids = std::move(ids), .why_none = {}};
}

TEST(DeviceChoice, RanksThatSeeAllDevicesTakeOneEachInOrder) {
  const auto choice = assign_devices({on("a", {"x", "y"}), on("a", {"x", "y"}), on("b", {"x", "y"})}, false);
  EXPECT_EQ(choice.devices, (Devices{0, 1, 0}));
  EXPECT_FALSE(choice.shared);
  EXPECT_TRUE(choice.lacking.empty());
}

TEST(DeviceChoice, RanksThatAreShownOneDeviceEachTakeThat) {
  const auto choice = assign_devices({on("a", {"x"}), on("a", {"y"}), on("a", {"z"})}, false);
  EXPECT_EQ(choice.devices, (Devices{0, 0, 0}));
  EXPECT_FALSE(choice.shared);
}

TEST(DeviceChoice, ARankWithoutADeviceOfItsOwnIsNamedByItsNode) {
  const auto choice = assign_devices({on("a", {"x"}), on("a", {"x"}), on("a", {"x"})}, false);
  EXPECT_EQ(choice.devices, (Devices{0, -1, -1}));
  EXPECT_EQ(choice.lacking, "node a shows 1 GPU(s) for its 3 ranks");
}

TEST(DeviceChoice, TheReasonForNoDeviceAtAllIsPassedOn) {
  const auto choice =
      assign_devices({on("a", {"x"}), {.host = "b", .ids = {}, .why_none = "no driver"}}, true);
  EXPECT_EQ(choice.devices, (Devices{0, -1}));
  EXPECT_EQ(choice.lacking, "on node b: no driver");
  EXPECT_FALSE(choice.shared);
}

TEST(DeviceChoice, SharingGoesAroundTheDevicesOfANode) {
  const std::vector<std::string> both{"x", "y"};
  const auto choice =
      assign_devices({on("a", both), on("a", both), on("a", both), on("a", both), on("a", both)}, true);
  EXPECT_EQ(choice.devices, (Devices{0, 1, 0, 1, 0}));
  EXPECT_TRUE(choice.shared);
}

TEST(DeviceChoice, NothingIsSharedWhereThereIsEnough) {
  EXPECT_FALSE(assign_devices({on("a", {"x", "y"}), on("a", {"x", "y"})}, true).shared);
}

}  // namespace
}  // namespace echelon::app
