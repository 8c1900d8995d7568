// Who gets past the door of a service, and what those who do not can hold up.
#include "base/net/guarded_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/net/stream.h"
#include "base/str.h"
#include "support/flood.h"
#include "support/impostor.h"
#include "support/matches.h"
#include "support/soft_limit.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT

constexpr Patience kLong{.seconds = 60};

/// A service that is served by a thread, and greets who is proven with a letter.
class Served {
 public:
  explicit Served(Secret secret, GuardedListener::Places places = {})
      : listener(Service::kShards, secret, places, "test", "none"),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd query{.fd = listener.fd(), .events = POLLIN, .revents = 0};
            (void)poll(&query, 1, 5);
            for (fs::Fd& client : listener.accept()) {
              send_message(client, 'g', kLong);
              proven_.push_back(std::move(client));
            }
          }
        }) {}
  [[nodiscard]] ServiceCard card() const { return over_loopback(own_card(listener.port())); }

  GuardedListener listener;

 private:
  std::vector<fs::Fd> proven_;
  std::jthread thread_;
};

/// Empty, or why a client was not let in.
std::string refusal(const ServiceCard& card, Secret secret, Service service = Service::kShards) {
  std::string why;
  const auto socket = call_service(card, {.service = service, .secret = secret, .patience_s = 60}, why);
  if (!socket) return why;
  return receive_message<char>(*socket, kLong) == 'g' ? "" : "not greeted";
}

void wait_until(const std::function<bool()>& is_so) {
  while (!is_so()) std::this_thread::sleep_for(5ms);
}

struct Hello {
  Opening opening;
  Nonce nonce{};
};

TEST(Handshake, LetsInWhoKnowsTheSecretAndNobodyElse) {
  const Secret secret = new_secret();
  const Served served(secret);
  EXPECT_EQ(refusal(served.card(), secret), "");
  EXPECT_EQ(refusal(served.card(), secret), "");
  for (std::size_t i = 0; i < secret.size(); ++i) {
    Secret other = secret;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_MENTIONS(refusal(served.card(), other), "does not know the secret of this run") << i;
  }
  EXPECT_MENTIONS(refusal(served.card(), secret, Service::kHeartbeats), "another service answers");
}

TEST(Handshake, NeverSendsTheSecretAndBelievesNobodyWhoDoesNotKnowIt) {
  const Secret secret = new_secret();
  std::string heard;
  {
    const Impostor impostor([&](fs::Fd client) {
      const auto hello = receive_message<Hello>(client, kLong);
      heard.assign(reinterpret_cast<const char*>(&hello), sizeof(hello));
      send_message(client, hello, kLong);  // what it has said itself
      send_message(client, Sha256{}, kLong);
      for (char byte = 0;; heard += byte) byte = receive_message<char>(client, kLong);
    });
    EXPECT_MENTIONS(refusal(impostor.card(), secret), "does not know the secret of this run");
  }
  EXPECT_EQ(heard.size(), sizeof(Hello)) << "nothing is said to who has proven nothing";
  EXPECT_FALSE(test::mentions(heard, std::string(secret.begin(), secret.end())));
}

TEST(Handshake, AnAnswerCannotBeSentBackAsAProof) {
  const Served served(new_secret());
  std::string why;
  const auto socket = connect_to("127.0.0.1", served.listener.port(), 60, why);
  ASSERT_TRUE(socket) << why;
  send_message(*socket, Hello{.opening = {.service = Service::kShards}}, kLong);
  EXPECT_EQ(receive_message<Opening>(*socket, kLong), (Opening{.service = Service::kShards}));
  (void)receive_message<Nonce>(*socket, kLong);
  send_message(*socket, receive_message<Sha256>(*socket, kLong), kLong);
  EXPECT_THROW((void)receive_message<char>(*socket, kLong), Error);
}

TEST(Handshake, AnotherVersionIsSaidOnBothSides) {
  const Opening newer{.version = Opening::kVersion + 1, .service = Service::kShards};
  const Impostor impostor([&](fs::Fd client) { send_message(client, newer, kLong); });
  EXPECT_MENTIONS(refusal(impostor.card(), new_secret()),
                  str("it speaks version ", newer.version, " of the protocol, this process version ",
                      Opening::kVersion, ": all ranks of a run need the same build"));
  const Served served(new_secret());
  std::string why;
  const auto socket = connect_to("127.0.0.1", served.listener.port(), 60, why);
  ASSERT_TRUE(socket) << why;
  send_message(*socket, Hello{.opening = newer}, kLong);
  EXPECT_EQ(receive_message<Opening>(*socket, kLong).version, Opening::kVersion);
  EXPECT_THROW((void)receive_message<char>(*socket, kLong), Error);
}

TEST(Handshake, IsTriedAgainWhereAServerHasNoRoomJustNow) {
  const Secret secret = new_secret();
  int turn = 0;
  const Impostor busy([&](fs::Fd client) {
    if (++turn < 3) return;  // closes it
    send_message(proven(std::move(client), secret), 'g', kLong);
  });
  EXPECT_EQ(refusal(busy.card(), secret), "");
  EXPECT_EQ(turn, 3);
}

TEST(ServiceCard, NamesLoopbackWithinOneNetworkOnly) {
  ServiceCard card = own_card(4711);
  ASSERT_FALSE(card.network.empty());
  EXPECT_EQ(addresses_from_here(card).front(), "127.0.0.1");
  EXPECT_EQ(addresses_from_here(card).size(), card.addresses.size() + 1);
  for (const char* elsewhere : {"", "another/1"}) {
    card.network = elsewhere;
    EXPECT_EQ(addresses_from_here(card), card.addresses);
  }
}

TEST(GuardedListener, IsNotHeldUpByStrangersOfAnyKindAndNumber) {
  for (const Stranger what : test::kStrangers) {
    for (const int count : {1, 20, 70, 300}) {
      const Secret secret = new_secret();
      const Served served(secret);
      const Flood flood(served.listener.port(), count, what);
      EXPECT_EQ(refusal(served.card(), secret), "") << static_cast<int>(what) << " " << count;
      wait_until([&] { return flood.open() <= 16; });  // of one address
    }
  }
}

TEST(GuardedListener, ClosesWhatIsNotProvenInTime) {
  const Served served(new_secret());
  const Flood silent(served.listener.port(), 3);
  const Flood slow(served.listener.port(), 3, Stranger::kSlow);
  wait_until([&] { return silent.open() + slow.open() == 0; });
}

TEST(GuardedListener, AddressesThatNoRankHasNamedShareThePlacesOfOne) {
  const Secret secret = new_secret();
  for (const bool named : {false, true}) {
    GuardedListener listener(Service::kShards, secret, {}, "test", "none");
    if (named) listener.expect({{.port = 1, .network = "", .addresses = {"127.0.0.2", "192.0.2.1"}}});
    std::vector<Flood> floods;
    for (int host = 2; host < 8; ++host)
      floods.emplace_back(listener.port(), 8, Stranger::kSilent, str("127.0.0.", host).c_str());
    EXPECT_TRUE(listener.accept().empty());
    std::size_t open = 0;
    for (const Flood& flood : floods) open += flood.open();
    EXPECT_EQ(floods.front().open(), 8U);
    EXPECT_EQ(open, named ? 8U + 16U : 48U);
  }
}

TEST(GuardedListener, BoundsWhatIsPendingInAll) {
  GuardedListener listener(Service::kShards, new_secret(), {}, "test", "none");
  std::vector<Flood> floods;
  for (int host = 2; host < 12; ++host)
    floods.emplace_back(listener.port(), 12, Stranger::kSilent, str("127.0.0.", host).c_str());
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(listener.accept().empty());
  std::size_t open = 0;
  for (const Flood& flood : floods) open += flood.open();
  EXPECT_EQ(open, 64U);
  EXPECT_EQ(floods.back().open(), 12U) << "the oldest give way";
}

TEST(GuardedListener, PausesWithoutDescriptorsAndGoesOnWithThem) {
  GuardedListener listener(Service::kShards, new_secret(), {}, "test", "none");
  const Flood flood(listener.port(), 5, Stranger::kGarbage);
  pollfd query{.fd = listener.fd(), .events = POLLIN, .revents = 0};
  bool none_proven = false;
  int ready = -1;
  {
    const SoftLimit none(
        RLIMIT_NOFILE,
        3);  // those of the standard streams; a sanitizer that checks a type needs one: no expectations here
    none_proven = listener.accept().empty();
    ready = poll(&query, 1, 0);
  }
  EXPECT_TRUE(none_proven);
  EXPECT_EQ(ready, 0) << "poll() would return again and again";
  EXPECT_EQ(flood.open(), 5U);
  wait_until([&] { return listener.accept().empty() && flood.open() == 0; });
}

TEST(GuardedListener, LeavesDescriptorsForFiles) {
  GuardedListener listener(Service::kShards, new_secret(), {.in_all = 1000, .per_address = 1000}, "test",
                           "none");
  const Flood flood(listener.port(), 300);
  const int lowest = fs::open("/dev/null", O_RDONLY, Code::kUsage).get();
  const SoftLimit limit(RLIMIT_NOFILE, static_cast<rlim_t>(lowest) + 100);
  for (int round = 0; round < 10; ++round) (void)listener.accept();
  std::vector<fs::Fd> files;
  for (int i = 0; i < 64; ++i) files.push_back(fs::open("/dev/null", O_RDONLY, Code::kUsage));
}

}  // namespace
}  // namespace echelon
