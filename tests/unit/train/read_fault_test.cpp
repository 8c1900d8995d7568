#include "train/read_fault.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "support/in_temp_dir.h"
#include "support/thread_ranks.h"

namespace echelon {
namespace {

struct ReadFault : test::InTempDir {};

TEST_F(ReadFault, ARankThatGoesOnReadingIsWaitedForLongerThanACollectiveMay) {
  const fs::Path path = dir.path() / "shard";
  fs::replace_file(path, "four", Code::kCheckpoint);
  const auto slow = [&](bool reads) {
    return test::ThreadRanks::run(
        2,
        [&](Communicator& comm) {
          const Fault fault = fault_of(comm, Reads::kOwnPart, [&] {
            const fs::Fd file = fs::open(path, O_RDONLY, Code::kCheckpoint);
            std::array<std::byte, 4> bytes{};
            for (int n = 0; comm.rank() == 1 && n < 20; ++n) {
              std::this_thread::sleep_for(std::chrono::milliseconds(200));
              if (reads) fs::read_at(file, 0, bytes, Code::kCheckpoint, path);
            }
          });
          EXPECT_TRUE(fault.none());
        },
        2);
  };
  EXPECT_EQ(slow(true)[0], nullptr);
  EXPECT_NE(slow(false)[0], nullptr) << "it may hang";
}

}  // namespace
}  // namespace echelon
