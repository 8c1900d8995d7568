#include "forecast/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"

namespace echelon::forecast {
namespace {

using Json = nlohmann::json;

std::string refusal(const std::function<void()>& body) {
  return test::refusal(Code::kUsage, body);
}

/// A file with `text`, for one test.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& text) : path_((folder_.path() / "mine.json").string()) {
    std::ofstream(path_) << text;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  test::TempDir folder_;
  std::string path_;
};

/// The profile `name` as a user's own.
Json own(const char* profiles, const char* name) {
  Json profile = Json::parse(profiles).at(name);
  profile["name"] = "mine";
  return profile;
}

/// What is said of a file with `profile`, without its name at the front.
template <class Find>
std::string said_of(const Json& profile, Find find) {
  const ProfileFile file(profile.dump());
  const std::string said = refusal([&] { (void)find(file.path()); });
  const std::string front = file.path() + ": ";
  EXPECT_EQ(said.substr(0, front.size()), front);
  return said.substr(std::min(front.size(), said.size()));
}

TEST(Profile, EveryDeviceIsValid) {
  const std::vector<std::string> names{"a100-40g", "a100-80g", "b200", "gb200", "h100", "h200", "l40s"};
  EXPECT_EQ(device_names(), names);
  for (const std::string& name : names) {
    const Device device = find_device(name);
    EXPECT_EQ(device.name, name);
    EXPECT_FALSE(device.title.empty());
    EXPECT_EQ(device.flops.count("fp8"), name.starts_with("a100") ? 0U : 1U) << name;
    if (device.flops.count("fp8") == 1) {
      EXPECT_NEAR(device.flops.at("fp8") / device.flops.at("bf16"), 2, 0.03) << name;
    }
    EXPECT_EQ(device.flops.at("bf16"), device.flops.at("fp16")) << name;
    EXPECT_GT(device.flops.at("bf16"), device.flops.at("tf32")) << name;
    EXPECT_GT(device.flops.at("tf32"), device.flops.at("fp32")) << name;
    EXPECT_GT(device.achieved.attention_forward, device.achieved.attention_backward) << name;
    EXPECT_GT(device.memory_bytes_per_s, device.peer.bytes_per_s) << name;
    EXPECT_GE(device.peer.bytes_per_s, device.host.bytes_per_s) << name;
    EXPECT_LT(device.context_bytes, 0.05 * device.memory_bytes) << name;
    EXPECT_EQ(device.host.latency_s, 0) << name;
  }
}

TEST(Profile, OfAGpuIsFoundByTheWordsOfItsName) {
  EXPECT_EQ(device_of_gpu("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(device_of_gpu("NVIDIA H200"), "h200");
  EXPECT_EQ(device_of_gpu("NVIDIA GB200"), "gb200");
  EXPECT_EQ(device_of_gpu("NVIDIA B200"), "b200");
  EXPECT_EQ(device_of_gpu("NVIDIA A100-SXM4-40GB"), "a100-40g");
  EXPECT_EQ(device_of_gpu("NVIDIA A100-SXM4-80GB"), "a100-80g");
  EXPECT_EQ(device_of_gpu("nvidia_h100_80gb_hbm3"), "h100");
  for (const char* other : {"NVIDIA GH200 480GB", "NVIDIA H100 PCIe", "NVIDIA H100 NVL",
                            "NVIDIA A100-PCIE-40GB", "NVIDIA A100", "NVIDIA L40", ""})
    EXPECT_EQ(device_of_gpu(other), "") << other;
}

TEST(Profile, EveryNetworkIsValid) {
  const std::vector<std::string> names{"efa-1600g",    "efa-3200g",       "efa-400g",       "ethernet-100g",
                                       "ethernet-25g", "infiniband-200g", "infiniband-400g"};
  EXPECT_EQ(network_names(), names);
  for (const std::string& name : names) {
    const Network network = find_network(name);
    EXPECT_EQ(network.name, name);
    EXPECT_FALSE(network.title.empty());
    EXPECT_GT(network.link.latency_s, find_device("h100").peer.latency_s) << name;
  }
  EXPECT_TRUE(find_network("efa-3200g").per_node);
  EXPECT_FALSE(find_network("infiniband-400g").per_node);
}

TEST(Profile, ReadsTheNumbers) {
  const Device device = find_device("h100");
  EXPECT_EQ(device.flops.at("bf16"), 989e12);
  EXPECT_EQ(device.memory_bytes_per_s, 3.35e12);
  EXPECT_EQ(device.peer.bytes_per_s, 450e9);
  EXPECT_EQ(device.peer.latency_s, 3.4e-6);
  EXPECT_EQ(find_network("efa-400g").link.bytes_per_s, 50e9);
}

TEST(Profile, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  EXPECT_EQ(
      refusal([] { (void)find_device("h1000"); }),
      "no device is called 'h1000'; did you mean h100? known are a100-40g, a100-80g, b200, gb200, h100, "
      "h200, l40s, and files that end in .json");
  EXPECT_EQ(refusal([] { (void)find_network("carrier-pigeon"); }),
            "no network is called 'carrier-pigeon'; known are efa-1600g, efa-3200g, efa-400g, ethernet-100g, "
            "ethernet-25g, infiniband-200g, infiniband-400g, and files that end in .json");
  EXPECT_MENTIONS(refusal([] { (void)find_device(""); }), "known are");
}

TEST(Profile, ANameIsReadWithoutRegardToCase) {
  EXPECT_EQ(find_device("H100").name, "h100");
  EXPECT_TRUE(find_device("H100").compiled_in);
  EXPECT_EQ(find_network("EFA-3200g").name, "efa-3200g");
  EXPECT_MENTIONS(refusal([] { (void)find_device("A100"); }),
                  "'A100'; did you mean a100-40g or a100-80g? known are a100-40g, ");
}

TEST(Profile, AUsersFileIsReadLikeOneOfOurs) {
  const ProfileFile device_file(own(kDevicesJson, "h200").dump());
  const Device device = find_device(device_file.path());
  EXPECT_EQ(device.name, "mine");
  EXPECT_FALSE(device.compiled_in);
  EXPECT_EQ(device.flops, find_device("h200").flops);
  EXPECT_EQ(device.host.achieved, find_device("h200").host.achieved);
  const ProfileFile network_file(own(kNetworksJson, "efa-3200g").dump());
  const Network network = find_network(network_file.path());
  EXPECT_EQ(network.name, "mine");
  EXPECT_TRUE(network.per_node);
  EXPECT_EQ(network.link.bytes_per_s, find_network("efa-3200g").link.bytes_per_s);
}

TEST(Profile, AnUnreadableFileIsNamed) {
  const test::TempDir folder;
  const std::string missing = (folder.path() / "missing.json").string();
  EXPECT_MENTIONS(refusal([&] { (void)find_device(missing); }), missing);
  for (const char* text : {"{", "{\"name\": 1e999}", "{\"name\": \"a\", \"name\": \"b\"}", ""}) {
    const ProfileFile file(text);
    EXPECT_EQ(refusal([&] { (void)find_device(file.path()); }).rfind(file.path() + ": ", 0), 0U) << text;
  }
  EXPECT_EQ(said_of(Json::array({1}), find_device), "the file is [1]; expected an object");
}

struct Case {
  const char* key;  ///< JSON pointer
  Json value;       ///< put there; discarded: the key is removed
  const char* said;
};

const Json kRemoved(Json::value_t::discarded);

template <class Find>
void expect_refused(const Json& valid, const std::vector<Case>& cases, Find find) {
  for (const Case& wrong : cases) {
    Json profile = valid;
    const Json::json_pointer at(wrong.key);
    if (wrong.value.is_discarded())
      profile.at(at.parent_pointer()).erase(at.back());
    else
      profile[at] = wrong.value;
    EXPECT_EQ(said_of(profile, find), wrong.said) << wrong.key;
  }
}

TEST(Profile, EachFaultOfADeviceNamesItsKey) {
  expect_refused(
      own(kDevicesJson, "h100"),
      {{"/achieved/product/value", 2,
        "achieved.product.value is 2; expected a fraction above 0 and at most 1"},
       {"/achieved/memory/value", 0, "achieved.memory.value is 0; expected a fraction above 0 and at most 1"},
       {"/memory_bytes/value", 80, "memory_bytes.value is 80; expected a number of bytes from 1e8 to 1e13"},
       {"/memory_bytes/value", 20'000'000'000'000,
        "memory_bytes.value is 20000000000000; expected a number of bytes from 1e8 to 1e13"},
       {"/context_bytes/value", -1, "context_bytes.value is -1; expected a number of bytes from 1 to 1e13"},
       {"/flops/bf16/value", 989,
        "flops.bf16.value is 989; expected a number of operations per second from 1e9 "
        "to 1e17"},
       {"/flops/tf32/value", 200'000'000'000'000'000,
        "flops.tf32.value is 200000000000000000; expected a number of operations per second from 1e9 to "
        "1e17"},
       {"/peer/bytes_per_s/value", 450,
        "peer.bytes_per_s.value is 450; expected a number of bytes per second "
        "from 1e6 to 1e14"},
       {"/host/bytes_per_s/value", "fast",
        "host.bytes_per_s.value is \"fast\"; expected a number of bytes per "
        "second from 1e6 to 1e14"},
       {"/kernel_s/value", 3, "kernel_s.value is 3; expected a number of seconds above 0 and at most 1"},
       {"/peer/latency_s/value", nullptr,
        "peer.latency_s.value is null; expected a number of seconds above 0 and at most 1"},
       {"/launch_s", 6, "launch_s is 6; expected an object"},
       {"/host", "PCIe", "host is \"PCIe\"; expected an object"},
       {"/title", 7, "title is 7; expected a text"},
       {"/peer/achieved/source", "", "peer.achieved.source is \"\"; expected a text"},
       {"/name", kRemoved, "name is missing; expected a text"},
       {"/peer", kRemoved, "peer is missing; expected an object"},
       {"/flops/fp16", kRemoved,
        "flops.fp16 is missing; expected an object with \"value\", a number of operations "
        "per second from 1e9 to 1e17, and \"source\""},
       {"/host/achieved/value", kRemoved,
        "host.achieved.value is missing; expected a fraction above 0 and at most 1"},
       {"/host/achieved/source", kRemoved, "host.achieved.source is missing; expected a text"},
       {"/host/latency_s", 1, "host.latency_s is unknown; expected only bytes_per_s, achieved"},
       {"/flops/int8", 1, "flops.int8 is unknown; expected only bf16, fp16, tf32, fp32, fp8"},
       {"/kernel_s/per", "gpu", "kernel_s.per is unknown; expected only value, source"},
       {"/memory", 1,
        "memory is unknown; expected only name, title, memory_bytes, memory_bytes_per_s, flops, "
        "achieved, kernel_s, launch_s, collective_share, context_bytes, peer, host"}},
      find_device);
}

TEST(Profile, EachFaultOfANetworkNamesItsKey) {
  expect_refused(
      own(kNetworksJson, "efa-400g"),
      {{"/bytes_per_s/value", 0,
        "bytes_per_s.value is 0; expected a number of bytes per second from 1e6 to 1e14"},
       {"/bytes_per_s/per", "rack", "bytes_per_s.per is \"rack\"; expected node or gpu"},
       {"/bytes_per_s/per", kRemoved, "bytes_per_s.per is missing; expected node or gpu"},
       {"/bytes_per_s/source", kRemoved, "bytes_per_s.source is missing; expected a text"},
       {"/bytes_per_s", kRemoved, "bytes_per_s is missing; expected an object"},
       {"/bytes_per_s/unit", "B", "bytes_per_s.unit is unknown; expected only value, per, source"},
       {"/achieved/value", 78, "achieved.value is 78; expected a fraction above 0 and at most 1"},
       {"/latency_s/value", 75, "latency_s.value is 75; expected a number of seconds above 0 and at most 1"},
       {"/latency", 1, "latency is unknown; expected only name, title, bytes_per_s, achieved, latency_s"}},
      find_network);
}

TEST(Profile, AllFaultsAreReportedAtOnce) {
  Json profile = own(kDevicesJson, "h100");
  profile["achieved"]["product"]["value"] = 2;
  profile["peer"].erase("latency_s");
  profile["memory"] = 1;
  const ProfileFile file(profile.dump());
  const std::string said = refusal([&] { (void)find_device(file.path()); });
  const std::string front = file.path() + ": ";
  EXPECT_EQ(said.rfind(front + "achieved.product.value is 2;", 0), 0U) << said;
  EXPECT_MENTIONS(said, '\n' + front + "peer.latency_s is missing;", '\n' + front + "memory is unknown;");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

TEST(Profile, ManyFaultsAreCounted) {
  Json profile = own(kNetworksJson, "efa-400g");
  for (int i = 0; i < 60; ++i) profile["x" + std::to_string(i)] = 1;
  const std::string said = said_of(profile, find_network);
  EXPECT_MENTIONS(said, "\n... and 10 more; correct these first");
}

}  // namespace
}  // namespace echelon::forecast
