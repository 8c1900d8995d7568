#include "base/files/own_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/files/new_file.h"
#include "base/str.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"

namespace echelon::fs {
namespace {

using test::error_of;

constexpr const char* kRemedy = "say so";

class OwnFile : public ::testing::Test {
 protected:
  OwnFile() { std::ofstream(victim()) << kText; }
  [[nodiscard]] Path file(const std::string& name) const { return dir_.path() / name; }
  [[nodiscard]] Path victim() const { return file("victim"); }
  [[nodiscard]] std::string content(const std::string& name) const {
    return read_file(file(name), 1 << 20, Code::kUsage);
  }
  static constexpr const char* kText = "what must not change";

 private:
  test::TempDir dir_;
};

TEST_F(OwnFile, IsMadeWrittenAndGoneOnWith) {
  const std::string more = "more";
  write_at(open_own(file("a"), O_WRONLY | O_CREAT, Code::kUsage), 0, std::as_bytes(std::span(more)),
           Code::kUsage, file("a"));
  EXPECT_EQ(content("a"), "more");
  EXPECT_EQ(read_own_file(file("a"), 4, Code::kUsage), "more");
  EXPECT_EQ(error_of([&] { (void)read_own_file(file("a"), 3, Code::kUsage); }),
            str("2: '", file("a").string(), "' has 4 bytes; at most 3 are accepted here"));
  (void)open_own(file("a"), O_WRONLY | O_CREAT | O_TRUNC, Code::kUsage);
  EXPECT_EQ(content("a"), "");
  EXPECT_NE(error_of([&] { (void)open_own(file("a"), O_WRONLY | O_CREAT | O_EXCL, Code::kUsage); }), "");
}

TEST_F(OwnFile, NeverWritesThroughALink) {
  std::filesystem::create_symlink(victim(), file("soft"));
  std::filesystem::create_symlink(file("nowhere"), file("dangling"));
  std::filesystem::create_hard_link(victim(), file("hard"));
  for (const int flags : {O_WRONLY | O_CREAT, O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_CREAT,
                          O_RDWR | O_CREAT | O_EXCL, O_WRONLY | O_CREAT | O_APPEND}) {
    for (const char* name : {"soft", "dangling", "hard"})
      EXPECT_NE(error_of([&] { (void)open_own(file(name), flags, Code::kUsage); }), "") << name << flags;
  }
  EXPECT_EQ(
      error_of([&] { (void)open_own(file("soft"), O_WRONLY, Code::kCheckpoint); }),
      str("5: '", file("soft").string(), "' is a symbolic link; expected a regular file: remove the link"));
  EXPECT_MENTIONS(error_of([&] { (void)open_own(file("hard"), O_WRONLY, Code::kUsage); }),
                  "has 2 hard links");
  EXPECT_NE(error_of([&] { (void)read_own_file(file("soft"), 100, Code::kUsage); }), "");
  EXPECT_EQ(read_own_file(file("hard"), 100, Code::kUsage), kText);
  EXPECT_EQ(content("victim"), kText);
  EXPECT_FALSE(std::filesystem::exists(file("nowhere")));
}

TEST_F(OwnFile, PublishingReplacesALinkAndWritesToNone) {
  // The name that a draft had before drafts had random ones.
  for (const char* name : {"soft", "soft.tmp", "hard", "hard.tmp"})
    name[0] == 's' ? std::filesystem::create_symlink(victim(), file(name))
                   : std::filesystem::create_hard_link(victim(), file(name));
  for (const char* name : {"soft", "hard"}) {
    publish_file(file(name), "new", Code::kUsage);
    EXPECT_EQ(content(name), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(file(name)));
  }
  replace_file(file("soft"), "newer", Code::kUsage);
  EXPECT_EQ(content("soft"), "newer");
  EXPECT_EQ(content("victim"), kText);
}

TEST_F(OwnFile, WaitsForNoPipe) {
  ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0600), 0);
  for (const int flags : {O_WRONLY | O_CREAT, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_APPEND})
    EXPECT_NE(error_of([&] { (void)open_own(file("fifo"), flags, Code::kUsage); }), "");
  EXPECT_MENTIONS(error_of([&] { (void)open_own_to_read(file("fifo"), Code::kUsage); }),
                  "not a regular file");
}

TEST_F(OwnFile, AFolderOfOursPassesAndAnothersDoesNot) {
  std::filesystem::create_directory(file("mine"));
  EXPECT_EQ(error_of([&] { require_own_folder(file("mine"), Code::kUsage, kRemedy); }), "");
  std::filesystem::create_directory_symlink(file("mine"), file("link"));
  EXPECT_EQ(error_of([&] { require_own_folder(file("link"), Code::kUsage, kRemedy); }), "");
  EXPECT_NE(error_of([&] { require_own_folder(victim(), Code::kUsage, kRemedy); }), "");
  EXPECT_NE(error_of([&] { require_own_folder(file("none"), Code::kUsage, kRemedy); }), "");
  constexpr uid_t kOther = 54321;
  Path foreign = "/";  // root's, for everybody else
  if (::geteuid() == 0) {
    foreign = file("foreign");
    std::filesystem::create_directory(foreign);
    ASSERT_EQ(::chown(foreign.c_str(), kOther, kOther), 0);
  }
  EXPECT_EQ(error_of([&] { require_own_folder(foreign, Code::kUsage, kRemedy); }),
            str("2: the folder '", foreign.string(), "' belongs to user ", ::geteuid() == 0 ? kOther : 0,
                ", who can change what user ", ::geteuid(),
                " (this process) writes there; name a folder of your own, or say so"));
  std::filesystem::create_directory_symlink(foreign, file("to-foreign"));
  EXPECT_NE(error_of([&] { require_own_folder(file("to-foreign"), Code::kUsage, kRemedy); }), "");
}

/// What a folder of that mode is refused with.
std::string sharing_of(const Path& folder, mode_t mode) {
  EXPECT_EQ(::chmod(folder.c_str(), mode), 0);
  return error_of([&] { require_unshared_folder(folder, Code::kUsage, kRemedy); });
}

TEST_F(OwnFile, AFolderThatOthersCanWriteToIsShared) {
  const Path folder = file("folder");
  std::filesystem::create_directory(folder);
  for (const mode_t mode : {0700, 0755, 02755}) EXPECT_EQ(sharing_of(folder, mode), "");
  for (const mode_t mode : {0777, 01777})
    EXPECT_EQ(sharing_of(folder, mode),
              str("2: the folder '", folder.string(),
                  "' can be written by all users, who can change what this process writes there; "
                  "take that from them (chmod go-w), or say so"));
}

TEST_F(OwnFile, AFolderThatAnotherGroupCanWriteToIsShared) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to any group";
  const Path folder = file("folder");
  std::filesystem::create_directory(folder);
  EXPECT_EQ(sharing_of(folder, 0775), "");  // the group of root's name
  ASSERT_EQ(::chown(folder.c_str(), 0, 54321), 0);
  EXPECT_MENTIONS(sharing_of(folder, 0775), "can be written by group 54321");
  EXPECT_EQ(sharing_of(folder, 0755), "");
}

TEST_F(OwnFile, AFolderOfOursBehindAnothersLinkDoesNotPass) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's link";
  std::filesystem::create_directory(file("mine"));
  std::filesystem::create_directory_symlink(file("mine"), file("link"));
  ASSERT_EQ(::lchown(file("link").c_str(), 54321, 54321), 0);
  for (const char* name : {"link", "link/"})
    EXPECT_MENTIONS(error_of([&] { require_own_folder(file(name), Code::kUsage, kRemedy); }), "the link '");
}

}  // namespace
}  // namespace echelon::fs
