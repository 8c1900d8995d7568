// The memory service under strangers, and what a fetch says of a service that does not work.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <optional>

#include "base/net/stream.h"
#include "base/process/descriptors.h"
#include "support/faulty_disk.h"
#include "support/flood.h"
#include "support/impostor.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/memory/memory_nodes.h"

namespace echelon::checkpoint::test {
namespace {

using echelon::test::DiskCall;
using echelon::test::Fault;
using echelon::test::FaultyDisk;
using echelon::test::Flood;
using echelon::test::Impostor;
using echelon::test::over_loopback;
using echelon::test::proven;
using echelon::test::Stranger;

const Hosts kThree{"a", "b", "c"};

TEST(MemoryService, StrangersHoldUpNeitherSavesNorRestores) {
  allow_more_descriptors();
  for (const Stranger what : echelon::test::kStrangers) {
    for (const int count : {1, 70, 200}) {
      const echelon::test::TempDir dir;
      MemoryNodes nodes(dir.path(), kThree);
      std::vector<Flood> floods;
      for (int rank = 0; rank < 3; ++rank) floods.emplace_back(nodes.card_of(rank).port, count, what);
      EXPECT_EQ(nodes.save(10), Hosts{}) << static_cast<int>(what) << " " << count;
      ASSERT_EQ(nodes.whole_steps(), std::vector<std::int64_t>{10});
      for (int node = 0; node < 3; ++node) EXPECT_EQ(nodes.wrong_on(node, nodes.choice().whole[0]), "");
    }
  }
}

constexpr Patience kLong{.seconds = 60};
const std::string kReply =
    std::string("ECKMEM01") + std::string("\x40\x42\x0f\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);

void say(const fs::Fd& client, const std::string& text) {
  send_all(client, std::as_bytes(std::span(text)), kLong);
}

void hear(const fs::Fd& client, std::size_t bytes) {
  std::vector<std::byte> heard(bytes);
  auto rest = std::span(heard);
  while (!rest.empty()) rest = rest.subspan(receive_some(client, rest, kLong));
}

/// A service that goes wrong: does what it is told to, after the handshake if it has a secret, and closes the
/// connection.
struct Broken {
  const char* how;
  std::optional<Secret> secret;
  std::function<void(const fs::Fd&)> act;
};

std::vector<Broken> broken_services() {
  Secret other = kSecret;
  other[0] = 'x';
  return {
      {"closes at once", {}, [](const fs::Fd&) {}},
      {"closes after the hello",
       {},
       [](const fs::Fd& client) { hear(client, sizeof(Opening) + sizeof(Nonce)); }},
      {"is another program",
       {},
       [](const fs::Fd& client) { say(client, "220 mail.example.org ESMTP ready\r\n"); }},
      {"is of another run", other, [](const fs::Fd&) {}},
      {"closes before the request", kSecret, [](const fs::Fd&) {}},
      {"closes after the request", kSecret, [](const fs::Fd& client) { hear(client, 40); }},
      {"answers nonsense", kSecret, [](const fs::Fd& client) { say(client, std::string(1000, 'x')); }},
      {"ends within the answer", kSecret, [](const fs::Fd& client) { say(client, kReply.substr(0, 13)); }},
      {"ends before the file", kSecret, [](const fs::Fd& client) { say(client, kReply); }},
      {"ends within the file", kSecret, [](const fs::Fd& client) { say(client, kReply + "begin"); }},
      {"is silent", {}, [](const fs::Fd& client) { hear(client, 1000); }},
      {"is silent after the handshake", kSecret, [](const fs::Fd& client) { hear(client, 1000); }},
  };
}

/// Nothing, or the Error that a fetch of shard 0 ends with.
std::optional<Error> failure_of(const ServiceCard& card) {
  return thrown_by([&] {
    fetch(card, kSecret, {.step = 10, .save_id = TinyRun::save_id(10), .rank = 0, .ranks = 3},
          {.silence_s = 0.3}, [](std::span<const std::byte>) {});
  });
}

void expect_of_system(const std::optional<Error>& error, const std::string& how) {
  ASSERT_TRUE(error) << how;
  EXPECT_EQ(error->code(), Code::kCheckpoint) << how;
  EXPECT_TRUE(error->is_of_system()) << how << ": " << error->what();
}

// A restore takes an Error of the system for no damage: it tries again, ends with exit code 7, and removes
// nothing.
TEST(MemoryService, EveryWayNotToAnswerSaysNothingAboutTheFile) {
  expect_of_system(failure_of({}), "serves nothing");
  expect_of_system(failure_of(over_loopback(own_card(1))), "is not there");
  for (const Broken& broken : broken_services()) {
    const Impostor impostor([&](fs::Fd client) {
      if (broken.secret) client = proven(std::move(client), *broken.secret);
      broken.act(client);
    });
    expect_of_system(failure_of(impostor.card()), broken.how);
  }
}

TEST(MemoryService, AReadErrorOfTheOtherSideIsNoDamageAndAMissingFileIs) {
  SavedNodes nodes(kThree);
  ASSERT_FALSE(failure_of(nodes.card_of(0)));
  for (const DiskCall call : {DiskCall::kOpen, DiskCall::kRead, DiskCall::kStat}) {
    InUse<FaultyDisk> disk(fs::disk(),
                           {{.call = call, .path = "shard-00000", .times = Fault::kForever, .error = EIO}});
    const ShardServer server(nodes.folder(0).path(), kSecret);  // its threads end before the disk goes
    expect_of_system(failure_of(over_loopback(server.card())), str("call ", static_cast<int>(call)));
  }
  std::filesystem::remove(nodes.shard(0, 10, 0));
  const auto missing = failure_of(nodes.card_of(0));
  ASSERT_TRUE(missing);
  EXPECT_FALSE(missing->is_of_system());
}

/// What node b, which lacks shard 2, makes of the newest save where `card` is said to serve nodes a and c.
std::optional<Error> assembled_from(MemoryNodes& nodes, const ServiceCard& card) {
  for (const int node : {0, 2}) nodes.redirect(node, card);
  const MemoryChoice choice = nodes.choice();
  const Assembly whole = nodes.assembly(1, choice.whole.at(0));
  const std::optional<Error> error = thrown_by([&] {
    whole.begin();
    for (int shard = 0; shard < 3; ++shard) whole.bring(shard);
  });
  Assembly::remove(nodes.folder(1));
  return error;
}

TEST(MemoryService, AStateOfWhichOnlyPartsCanBeHadIsNotCalledDamaged) {
  SavedNodes nodes(kThree);
  expect_of_system(assembled_from(nodes, {}), "serves nothing");
  // One holder is damaged, of the other nothing is known.
  flip_bit(nodes.shard(1, 10, 0), std::filesystem::file_size(nodes.shard(1, 10, 0)) - 1);
  testing::internal::CaptureStderr();
  expect_of_system(assembled_from(nodes, {}), "serves nothing beside a damaged copy");
  (void)testing::internal::GetCapturedStderr();
  EXPECT_EQ(nodes.whole_steps(), std::vector<std::int64_t>{10});
}

TEST(MemoryService, NotesThatCannotBeReadAreNotCalledDamaged) {
  SavedNodes nodes(kThree);
  for (const std::string file : {"NODE.json", "INFO", "shard-00000"}) {
    InUse<FaultyDisk> disk(fs::disk(),
                           {{.call = DiskCall::kRead, .path = file, .times = Fault::kForever, .error = EIO}});
    expect_of_system(thrown_by([&] { return nodes.choice(); }), file);
  }
}

}  // namespace
}  // namespace echelon::checkpoint::test
