#include "app/engine/device_choice.h"

#include <gtest/gtest.h>

#include "app/cuda/peak.h"

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

TEST(DeviceChoice, GpusThatCannotBeUsedAreAFaultWhateverElseIsLacking) {
  const VisibleDevices none{.host = "b", .ids = {}, .why_none = "no driver"};
  const VisibleDevices broken{.host = "c", .ids = {}, .why_none = "a library is missing", .broken = true};
  const auto choice = assign_devices({on("a", {"x"}), none, broken}, true);
  EXPECT_TRUE(choice.broken);
  EXPECT_EQ(choice.lacking, "on node c: a library is missing");
  EXPECT_EQ(choice.devices, (Devices{0, -1, -1}));
  EXPECT_FALSE(assign_devices({on("a", {"x"}), none}, false).broken);
}

TEST(DeviceChoice, SharingGoesAroundTheDevicesOfANode) {
  const std::vector<std::string> both{"x", "y"};
  const auto choice =
      assign_devices({on("a", both), on("a", both), on("a", both), on("a", both), on("a", both)}, true);
  EXPECT_EQ(choice.devices, (Devices{0, 1, 0, 1, 0}));
  EXPECT_TRUE(choice.shared);
}

TEST(DeviceChoice, ANodeThatHidesGpusFromItsRanksIsNamed) {
  EXPECT_EQ(assign_devices({on("a", {"x"}), on("b", {"x"}), on("b", {"y"})}, false).hiding, "b");
  EXPECT_EQ(assign_devices({on("a", {"x", "y"}), on("a", {"x", "y"}), on("b", {"z"})}, false).hiding, "");
  EXPECT_EQ(assign_devices({on("a", {"x"}), {.host = "a", .ids = {}, .why_none = "none"}}, false).hiding, "");
}

TEST(DeviceChoice, NothingIsSharedWhereThereIsEnough) {
  EXPECT_FALSE(assign_devices({on("a", {"x", "y"}), on("a", {"x", "y"})}, true).shared);
}

// What cards report, and what their data sheets promise.
TEST(DevicePeak, IsThatOfTheDataSheets) {
  const auto near = [](const DeviceShape& device, double flops) {
    EXPECT_NEAR(peak_bf16(device) / flops, 1, 0.03) << device.capability;
  };
  near({80, 108, 1.41e9}, 312e12);                                         // A100
  near({86, 72, 1.695e9}, 125e12);                                         // A10
  near({89, 142, 2.52e9}, 362e12);                                         // L40S
  near({89, 58, 2.04e9}, 121e12);                                          // L4
  near({90, 132, 1.98e9}, 989e12);                                         // H100 SXM, H200
  near({100, 148, 1.965e9}, 2250e12);                                      // B200
  near({120, 188, 2.617e9}, 503e12);                                       // RTX PRO 6000
  EXPECT_LT(peak_bf16({90, 114, 1.755e9}), peak_bf16({90, 132, 1.98e9}));  // H100 PCIe: fewer processors
  EXPECT_EQ(peak_bf16({70, 80, 1.53e9}), 0);                               // no bf16
}

}  // namespace
}  // namespace echelon::app
