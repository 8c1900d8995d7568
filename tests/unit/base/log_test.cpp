#include "base/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/files/fs.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

// Heartbeats log before a rank has opened its own log.
TEST(Log, IsReplacedWhileOthersUseIt) {
  const test::TempDir folder;
  const auto file = [&](int number) { return folder.path() / std::to_string(number); };
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  for (int n = 0; n < 2; ++n) {
    others.emplace_back([&over] {
      while (!over) {
        log::note("a line");
        log::keep();
      }
    });
  }
  for (int number = 0; number < 300; ++number) log::init("rank", false, file(number), number % 2 == 1);
  log::note("the last one");
  over = true;
  for (std::thread& other : others) other.join();
  log::keep();
  EXPECT_NE(fs::read_file(file(299), 1 << 30, Code::kUsage).find("] the last one\n"), std::string::npos);
  log::init("", true, {});
}

}  // namespace
}  // namespace echelon
