#include "base/process/group_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace echelon {
namespace {

using std::filesystem::path;

void write(const path& file, const std::string& text) {
  std::ofstream(file) << text;
}

class GroupMemory : public ::testing::Test {
 protected:
  void group(const std::string& folder, const std::string& limit, const std::string& used,
             const std::string& stat, bool second) {
    std::filesystem::create_directories(dir_.path() / folder);
    write(dir_.path() / folder / (second ? "memory.max" : "memory.limit_in_bytes"), limit + "\n");
    write(dir_.path() / folder / (second ? "memory.current" : "memory.usage_in_bytes"), used + "\n");
    write(dir_.path() / folder / "memory.stat", stat);
  }
  std::optional<std::uint64_t> left(const std::string& groups) {
    write(dir_.path() / "groups", groups);
    return group_memory_left(dir_.path() / "groups", dir_.path());
  }

  test::TempDir dir_;
};

TEST_F(GroupMemory, IsTheLeastOfTheGroupAndThoseAboveIt) {
  group("job", "1000", "700", "anon 100\n", true);
  group("job/step", "max", "650", "anon 100\n", true);
  EXPECT_EQ(left("0::/job/step\n"), 300U);
  group("job/step", "800", "650", "anon 100\n", true);
  EXPECT_EQ(left("0::/job/step\n"), 150U);
  group("job/step", "600", "650", "anon 100\n", true);
  EXPECT_EQ(left("0::/job/step\n"), 0U);
}

TEST_F(GroupMemory, TheLimitIsTheLeastOfTheGroupAndThoseAboveIt) {
  const auto limit = [&](const std::string& groups) {
    write(dir_.path() / "groups", groups);
    return group_memory_limit(dir_.path() / "groups", dir_.path());
  };
  group("job", "1000", "700", "", true);
  group("job/step", "max", "650", "", true);
  EXPECT_EQ(limit("0::/job/step\n"), 1000U);
  group("job/step", "800", "650", "", true);
  EXPECT_EQ(limit("0::/job/step\n"), 800U);
  EXPECT_EQ(limit("0::/\n"), std::nullopt);
}

TEST_F(GroupMemory, CountsFilesInMemoryButNotThePageCache) {
  group("job", "1000", "900", "file 700\nshmem 300\ninactive_file 250\nactive_file 150\n", true);
  EXPECT_EQ(left("0::/job\n"), 500U);
}

TEST_F(GroupMemory, IsReadInTheFirstVersion) {
  group("memory/slurm", "1000", "900", "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n",
        false);
  EXPECT_EQ(left("9:name=systemd:/\n4:cpu,memory:/slurm/none\n0::/\n"), 250U);
}

TEST_F(GroupMemory, IsUnlimitedWithoutAGroup) {
  EXPECT_EQ(left("0::/\n"), std::nullopt);
  EXPECT_EQ(group_memory_left(dir_.path() / "nothing", dir_.path()), std::nullopt);
}

}  // namespace
}  // namespace echelon
