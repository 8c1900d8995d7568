// Heartbeats while strangers hold connections to the hub.
#include "liveness/hub.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "base/process/descriptors.h"
#include "support/flood.h"
#include "support/impostor.h"

namespace echelon {
namespace {

using test::Flood;
using test::Stranger;

/// Sends a frame and waits for the answer to it.
FrameKind answer_to(Wire& wire, const Frame& frame) {
  wire.send(frame);
  while (!wire.closed()) {
    pollfd query{.fd = wire.fd(), .events = POLLIN, .revents = 0};
    (void)poll(&query, 1, 1000);
    if (const auto frames = wire.receive(); !frames.empty()) return frames.front().kind;
  }
  return FrameKind::kClosing;
}

TEST(Hub, HearsEveryRankWhateverStrangersDo) {
  allow_more_descriptors();
  for (const Stranger what : test::kStrangers) {
    for (const int count : {1, 70, 1200}) {
      const Secret secret = new_secret();
      std::atomic<bool> verdict{false};
      Hub hub({.hosts = {"a", "a", "b", "b"},
               .secret = secret,
               .on_verdict = [&](const Finding&) { verdict = true; },
               .on_warning = [](const Finding&) {},
               .on_nodes = {}});
      const Flood flood(hub.port(), count, what);
      if (what != Stranger::kClosing) {
        ASSERT_EQ(flood.made(), static_cast<std::size_t>(count));
      }
      std::vector<Wire> wires;
      for (int rank = 0; rank < 4; ++rank) {
        std::string why;
        auto socket = call_service(test::over_loopback(own_card(hub.port())),
                                   {.service = Service::kHeartbeats, .secret = secret}, why);
        ASSERT_TRUE(socket) << static_cast<int>(what) << " " << count << ": " << why;
        wires.emplace_back(std::move(*socket));
        EXPECT_EQ(answer_to(wires.back(), {.kind = FrameKind::kHello, .rank = rank}), FrameKind::kAck);
      }
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(answer_to(wires[static_cast<std::size_t>(rank)], {.rank = rank}), FrameKind::kAck);
      EXPECT_FALSE(verdict);
    }
  }
}

TEST(Hub, ClosesTheConnectionOfARankThatThereIsNot) {
  const Secret secret = new_secret();
  const Hub hub({.hosts = {"a", "b"}, .secret = secret, .on_verdict = {}, .on_warning = {}, .on_nodes = {}});
  for (const Frame& first : {Frame{.kind = FrameKind::kHello, .rank = 2},
                             Frame{.kind = FrameKind::kHello, .rank = -1}, Frame{.rank = 1}}) {
    std::string why;
    auto socket = call_service(test::over_loopback(own_card(hub.port())),
                               {.service = Service::kHeartbeats, .secret = secret}, why);
    ASSERT_TRUE(socket) << why;
    Wire wire(std::move(*socket));
    EXPECT_EQ(answer_to(wire, first), FrameKind::kClosing);
    EXPECT_TRUE(wire.closed());
  }
}

}  // namespace
}  // namespace echelon
