#include "base/files/fs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <thread>

#include "base/files/new_file.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/swapping_disk.h"
#include "support/temp_dir.h"

namespace echelon::fs {
namespace {

using test::error_of;

class FileSystem : public ::testing::Test {
 protected:
  [[nodiscard]] Path file(const std::string& name) const { return dir_.path() / name; }

 private:
  test::TempDir dir_;
};

TEST_F(FileSystem, PublishedTextIsReadBack) {
  const std::string text("with\0zero\n", 10);
  publish_file(file("a"), text, Code::kUsage);
  EXPECT_EQ(read_file(file("a"), 10, Code::kUsage), text);
  publish_file(file("a"), "", Code::kUsage);
  EXPECT_EQ(read_file(file("a"), 0, Code::kUsage), "");
  EXPECT_FALSE(std::filesystem::exists(file("a.tmp")));
}

TEST_F(FileSystem, ReadersOfAPublishedFileSeeOldOrNewTextWhole) {
  const std::string texts[] = {std::string(100'000, 'a'), std::string(70'000, 'b')};
  publish_file(file("a"), texts[0], Code::kUsage);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i <= 30; ++i) publish_file(file("a"), texts[i % 2], Code::kUsage);
    done = true;
  });
  int torn = 0;
  while (!done) {
    const std::string text = read_file(file("a"), 1 << 20, Code::kUsage);
    torn += text == texts[0] || text == texts[1] ? 0 : 1;
  }
  writer.join();
  EXPECT_EQ(torn, 0);
}

TEST_F(FileSystem, FailingPublishLeavesTheOldTextAndNothingElse) {
  std::filesystem::create_directories(file("a/inside"));  // a folder with content cannot be renamed over
  EXPECT_MENTIONS(error_of([&] { publish_file(file("a"), "new", Code::kCheckpoint); }), "5: cannot rename");
  EXPECT_TRUE(std::filesystem::is_directory(file("a/inside")));
  EXPECT_FALSE(std::filesystem::exists(file("a.tmp")));
}

TEST_F(FileSystem, ReadFileRefusesAFifoAtOnce) {
  ASSERT_EQ(mkfifo(file("fifo").c_str(), 0600), 0);
  EXPECT_MENTIONS(error_of([&] { (void)read_file(file("fifo"), 100, Code::kData); }), "not a regular file");
}

TEST_F(FileSystem, ReadFileRefusesFoldersAndDevices) {
  for (const Path& path : {file("."), Path("/dev/zero")})
    EXPECT_MENTIONS(error_of([&] { (void)read_file(path, 100, Code::kData); }), "not a regular file") << path;
}

TEST_F(FileSystem, ReadFileRefusesWhatIsTooLargeWithoutReadingIt) {
  { const Fd fd = open(file("big"), O_WRONLY | O_CREAT, Code::kUsage); }
  std::filesystem::resize_file(file("big"), std::uint64_t{1} << 40);  // sparse
  const std::string error = error_of([&] { (void)read_file(file("big"), 4096, Code::kData); });
  EXPECT_MENTIONS(error, "1099511627776 bytes", "at most 4096");
}

TEST_F(FileSystem, MissingFileIsNamedWithTheReason) {
  EXPECT_EQ(error_of([&] { (void)read_file(file("none"), 100, Code::kData); }),
            "4: cannot open '" + file("none").string() + "': No such file or directory");
}

TEST_F(FileSystem, ReadingPastTheEndSaysThatTheFileWasCutShort) {
  publish_file(file("a"), "12345", Code::kUsage);
  const Fd fd = open(file("a"), O_RDONLY, Code::kUsage);
  std::vector<std::byte> bytes(8);
  const std::string error = error_of([&] { read_at(fd, 2, bytes, Code::kCheckpoint, file("a")); });
  EXPECT_MENTIONS(error, "cut short", "byte 5");
}

TEST_F(FileSystem, WritesLandAtTheirOffset) {
  const Fd fd = open(file("a"), O_RDWR | O_CREAT, Code::kUsage);
  const std::string text = "xyz";
  write_at(fd, 5, std::as_bytes(std::span(text)), Code::kUsage, file("a"));
  EXPECT_EQ(read_file(file("a"), 100, Code::kUsage), std::string(5, '\0') + "xyz");
}

TEST_F(FileSystem, FullDeviceIsReported) {
  const Fd fd = open("/dev/full", O_WRONLY, Code::kUsage);
  const std::string text = "xyz";
  const auto bytes = std::as_bytes(std::span(text));
  const std::string error = error_of([&] { write_at(fd, 0, bytes, Code::kCheckpoint, "/dev/full"); });
  EXPECT_EQ(error, "5: cannot write '/dev/full': No space left on device");
}

TEST_F(FileSystem, OnlyItsUserCanWriteToANewFolder) {
  const mode_t before = ::umask(0);
  make_directories(file("new/below"), Code::kUsage);
  ::umask(before);
  for (const char* name : {"new", "new/below"}) {
    struct stat info {};
    ASSERT_EQ(::stat(file(name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0755U) << name;
  }
}

TEST_F(FileSystem, MakeDirectoriesNamesTheFileInTheWay) {
  make_directories(file("a/b/c"), Code::kUsage);
  make_directories(file("a/b/c"), Code::kUsage);
  EXPECT_TRUE(std::filesystem::is_directory(file("a/b/c")));
  publish_file(file("f"), "", Code::kUsage);
  for (const char* name : {"f", "f/below"}) {
    const std::string error = error_of([&] { make_directories(file(name), Code::kUsage); });
    EXPECT_MENTIONS(error, "cannot create folder '" + file(name).string() + "'");
  }
}

TEST_F(FileSystem, MakeDirectoriesNamesTheLinkInTheWay) {
  publish_file(file("f"), "", Code::kUsage);
  std::filesystem::create_symlink("nothing", file("dangling"));
  std::filesystem::create_symlink("f", file("to-file"));
  for (const char* name : {"dangling", "dangling/below", "to-file"}) {
    const std::string link = file(std::string(name).substr(0, std::string(name).find('/'))).string();
    EXPECT_EQ(error_of([&] { make_directories(file(name), Code::kUsage); }),
              "2: cannot create folder '" + file(name).string() + "': '" + link +
                  "' is a symbolic link that leads to no folder");
  }
}

TEST_F(FileSystem, DescriptorsAreClosedWithTheirOwner) {
  publish_file(file("a"), "x", Code::kUsage);
  int raw = -1;
  {
    Fd first = open(file("a"), O_RDONLY, Code::kUsage);
    raw = first.get();
    const Fd second = std::move(first);
    EXPECT_EQ(second.get(), raw);
    EXPECT_EQ(fcntl(raw, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(ProcessFile, IsEmptyWithoutAProcessAndNeverThrowsWhenOneEnds) {
  EXPECT_MENTIONS(process_file(::getpid(), "stat"), "unit_base");
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    std::thread reaper([&] { ::waitpid(child, nullptr, 0); });
    for (int reads = 0; !process_file(child, "stat").empty() && reads < 100000; ++reads) {
    }
    reaper.join();
    EXPECT_EQ(process_file(child, "stat"), "");
  }
}

// Whoever can write to a folder swaps what is being removed for a link, before any of the calls.
TEST_F(FileSystem, ATreeThatIsSwappedForALinkWhileItIsRemovedTakesNothingElseWithIt) {
  const Path victim = file("victim/inner");
  for (const char* swapped_for_link : {"tree", "tree/inner"}) {
    bool swapped = true;
    for (int nth = 1; swapped; ++nth) {
      for (const char* folder : {"victim/inner", "tree/inner"}) {
        std::filesystem::create_directories(file(folder));
        for (const char* name : {"a", "b", "inner"}) std::ofstream(file(folder) / name) << "content";
      }
      test::SwappingDisk disk(nth, [&] {
        std::error_code gone;
        std::filesystem::rename(file(swapped_for_link), file("away"), gone);
        const Path target = std::string(swapped_for_link) == "tree" ? victim.parent_path() : victim;
        std::filesystem::create_directory_symlink(target, file(swapped_for_link), gone);
      });
      {
        const DiskInUse in_use(disk);
        (void)error_of([&] { remove_tree(file("tree"), Code::kUsage); });
      }
      swapped = disk.has_swapped();
      for (const char* name : {"a", "b", "inner"}) EXPECT_TRUE(std::filesystem::exists(victim / name)) << nth;
      std::filesystem::remove_all(file("tree"));
      std::filesystem::remove_all(file("away"));
    }
  }
}

}  // namespace
}  // namespace echelon::fs
