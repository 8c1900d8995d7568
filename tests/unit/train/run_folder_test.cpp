#include "train/run_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "support/temp_dir.h"

namespace echelon {
namespace {

std::string refusal_of(const std::filesystem::path& root) {
  try {
    const RunFolder folder(root, true);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    return e.what();
  }
  return "";
}

TEST(RunFolder, MakesWhatIsMissing) {
  const test::TempDir dir;
  const RunFolder folder(dir.path() / "a" / "b", true);
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() / "a" / "b" / "checkpoints"));
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() / "a" / "b" / "logs"));
  EXPECT_EQ(folder.log(3), dir.path() / "a" / "b" / "logs" / "rank-3.log");
}

TEST(RunFolder, SecondOwnerIsRefusedWithTheFirstOnesName) {
  const test::TempDir dir;
  {
    const RunFolder first(dir.path(), true);
    const std::string refusal = refusal_of(dir.path());
    EXPECT_NE(refusal.find("in use by process " + std::to_string(getpid()) + " on "), std::string::npos)
        << refusal;
    EXPECT_NE(refusal.find(dir.path().string()), std::string::npos) << refusal;
    EXPECT_NO_THROW(RunFolder(dir.path(), false)) << "other ranks of the same job take no lock";
  }
  EXPECT_EQ(refusal_of(dir.path()), "") << "the lock ends with its owner";
}

TEST(RunFolder, RefusalDoesNotEraseTheOwnersName) {
  const test::TempDir dir;
  const RunFolder first(dir.path(), true);
  EXPECT_EQ(refusal_of(dir.path()), refusal_of(dir.path()));
  EXPECT_NE(refusal_of(dir.path()).find("process"), std::string::npos);
}

TEST(RunFolder, LockOfAKilledProcessIsGone) {
  const test::TempDir dir;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder folder(dir.path(), true);
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NE(refusal_of(dir.path()).find("process " + std::to_string(child)), std::string::npos);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(refusal_of(dir.path()), "");
  close(ready[0]);
  close(ready[1]);
}

TEST(RunFolder, AFileInTheWayIsNamed) {
  const test::TempDir dir;
  fs::publish_file(dir.path() / "taken", "", Code::kUsage);
  EXPECT_NE(refusal_of(dir.path() / "taken").find("taken"), std::string::npos);
}

}  // namespace
}  // namespace echelon
