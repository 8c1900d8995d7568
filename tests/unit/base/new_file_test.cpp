#include "base/files/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <vector>

#include "base/str.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/no_direct_disk.h"
#include "support/refusal.h"
#include "support/soft_limit.h"
#include "support/temp_dir.h"

namespace echelon::fs {
namespace {

using namespace test;  // NOLINT

class NewFiles : public ::testing::Test {
 protected:
  [[nodiscard]] Path file(const std::string& name) const { return dir_.path() / name; }
  [[nodiscard]] std::string content(const std::string& name) const {
    return read_file(file(name), 1 << 20, Code::kUsage);
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const Path& path : list_folder(dir_.path(), Code::kUsage)) found.insert(path.filename());
    return found;
  }

 private:
  test::TempDir dir_;
};

using Names = std::set<std::string>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Bytes for bulk transfers, where they may begin.
class Aligned {
 public:
  explicit Aligned(std::size_t size) : all_(size + kDirectAlignment), size_(size) {
    for (std::size_t i = 0; i < size; ++i) bytes()[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  }
  [[nodiscard]] std::span<std::byte> bytes() {
    const std::size_t over = reinterpret_cast<std::uintptr_t>(all_.data()) % kDirectAlignment;
    return std::span(all_).subspan(kDirectAlignment - over, size_);
  }
  [[nodiscard]] std::string text() { return {reinterpret_cast<const char*>(bytes().data()), size_}; }

 private:
  std::vector<std::byte> all_;
  std::size_t size_;
};

TEST_F(NewFiles, HaveTheirNameOnceTheyArePublished) {
  publish_file(file("a"), "old", Code::kUsage);
  NewFile made(file("a.part"), Code::kUsage);
  made.write(3, bytes_of("def"));
  made.write(0, bytes_of("abc"));
  made.finish();
  EXPECT_EQ(content("a"), "old");
  made.publish(file("a"));
  EXPECT_EQ(content("a"), "abcdef");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(NewFiles, StayWhenTheyAreGoneOnWith) {
  publish_file(file("a"), "abcdef", Code::kUsage);
  {
    NewFile longer(file("a"), 4, Code::kUsage);
    longer.write(4, bytes_of("xyz"));
    longer.flush();
    const NewFile made(file("b"), 0, Code::kUsage);
  }
  EXPECT_EQ(content("a"), "abcdxyz");
  EXPECT_EQ(names(), (Names{"a", "b"}));
}

TEST_F(NewFiles, GoWithTheirObjectUnlessNamedOrKept) {
  {
    NewFile open(file("open"), Code::kUsage);
    NewFile finished(file("finished"), Code::kUsage);
    finished.finish();
    NewFile kept(file("kept"), Code::kUsage);
    kept.close();
    kept.keep();
    NewFile named(file("named.part"), Code::kUsage);
    named.close();
    named.rename(file("named"));
    publish_file(file("named.part"), "another's", Code::kUsage);
    NewFile discarded(file("discarded"), Code::kUsage);
    discarded.discard();
    publish_file(file("discarded"), "another's", Code::kUsage);
  }
  EXPECT_EQ(names(), (Names{"kept", "named", "named.part", "discarded"}));
}

TEST_F(NewFiles, TakeNoNameThatIsTaken) {
  publish_file(file("victim"), "what must not change", Code::kUsage);
  std::filesystem::create_symlink(file("nowhere"), file("dangling"));
  std::filesystem::create_symlink(file("victim"), file("soft"));
  for (const char* name : {"victim", "dangling", "soft"})
    EXPECT_EQ(error_of([&] { NewFile(file(name), Code::kData); }),
              str("4: cannot open for writing '", file(name).string(), "': File exists"));
  EXPECT_EQ(content("victim"), "what must not change");
  EXPECT_EQ(names(), (Names{"victim", "dangling", "soft"}));
}

TEST_F(NewFiles, ReplaceNoPipeAndNoDevice) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { publish_file(file("pipe"), "new", Code::kData); }),
            str("4: '", file("pipe").string(), "' is a pipe or a device and is not replaced"));
  EXPECT_EQ(error_of([&] { require_output("/dev/null"); }),
            "2: output '/dev/null' is a pipe or a device; name another file");
  EXPECT_EQ(names(), Names{"pipe"});
}

TEST_F(NewFiles, AsAUsersOutputReplaceWhatIsNotReadAndNoLink) {
  publish_file(file("a"), "", Code::kUsage);
  std::filesystem::create_symlink(file("a"), file("soft"));
  std::filesystem::create_hard_link(file("a"), file("hard"));
  for (const char* free : {"a", "none"}) require_output(file(free));
  require_output("");
  EXPECT_MENTIONS(error_of([&] { require_output(file("soft")); }), "soft' is a link");
  EXPECT_MENTIONS(error_of([&] { require_output(file("a") / "b"); }), "is in a folder that is not there");
  EXPECT_MENTIONS(error_of([&] { require_output(file("hard"), file("a")); }), "is what the command reads");
}

TEST_F(NewFiles, LeaveTheOldFileAndNothingElseWhereAnyCallFails) {
  publish_file(file("a"), "old", Code::kUsage);
  for (const DiskCall call :
       {DiskCall::kCreate, DiskCall::kWrite, DiskCall::kFlush, DiskCall::kClose, DiskCall::kRename}) {
    InUse<FaultyDisk> faulty(fs::disk(), {{.call = call, .path = file("a").string(), .error = EDQUOT}});
    const std::string failure = error_of([&] { publish_file(file("a"), "new", Code::kCheckpoint); });
    EXPECT_TRUE(failure.starts_with("5: cannot ") && failure.ends_with(": Disk quota exceeded")) << failure;
    EXPECT_EQ(faulty.struck(), 1);
    EXPECT_EQ(content("a"), "old");
    EXPECT_EQ(names(), Names{"a"});
    EXPECT_TRUE(faulty.open_files().empty());
  }
}

TEST_F(NewFiles, StayWhereTheFlushOfTheirFolderFails) {
  InUse<FaultyDisk> faulty(fs::disk(), {{.call = DiskCall::kFlush, .nth = 2, .error = EIO}});
  EXPECT_NE(error_of([&] { publish_file(file("a"), "new", Code::kUsage); }), "");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(NewFiles, AreNotFlushedWhereTheyNeedNotSurvive) {
  InUse<FaultyDisk> counting(fs::disk(), {});
  replace_file(file("a"), "new", Code::kUsage);
  EXPECT_EQ(counting.calls(DiskCall::kFlush), 0);
  publish_file(file("a"), "new", Code::kUsage);
  EXPECT_EQ(counting.calls(DiskCall::kFlush), 2);
}

TEST_F(NewFiles, ReserveTheirSpaceOrSayWhyNot) {
  for (const auto& [error, failure] : {std::pair(ENOSPC, "No space left on device"), {EOPNOTSUPP, ""}}) {
    const InUse<FaultyDisk> disk(fs::disk(), {{.call = DiskCall::kReserve, .error = error}});
    NewFile made(file("a"), Code::kCheckpoint);
    const std::string said = error_of([&] { made.reserve(5000); });
    EXPECT_EQ(said, *failure == '\0'
                        ? ""
                        : str("5: cannot reserve 4.9 KiB for '", file("a").string(), "': ", failure));
    EXPECT_EQ(std::filesystem::file_size(file("a")), *failure == '\0' ? 5000U : 0U);
  }
  const test::SoftLimit tight(RLIMIT_FSIZE, 4096);
  NewFile made(file("a"), Code::kCheckpoint);
  EXPECT_MENTIONS(error_of([&] { made.reserve(5000); }), "(ulimit -f)");
}

TEST_F(NewFiles, AreTheSameHoweverTheirBulkIsWritten) {
  Aligned bulk(3 * kDirectAlignment + 100);
  Disk real;
  test::NoDirectDisk refuses_opening(true);
  test::NoDirectDisk refuses_writing(false);
  test::FaultyDisk stops_at_odd_places(
      real, {{.times = 4, .does = Fault::Does::kShorten, .bytes = kDirectAlignment + 1}});
  test::FaultyDisk is_interrupted(real, {{.times = 2, .error = EINTR}});
  for (Disk* disk : std::initializer_list<Disk*>{&real, &refuses_opening, &refuses_writing,
                                                 &stops_at_odd_places, &is_interrupted}) {
    const DiskInUse in_use(*disk);
    NewFile made(draft_name(file("bulk")), Code::kUsage);
    made.write_bulk(kDirectAlignment, bulk.bytes());
    made.write(0, bytes_of(std::string(kDirectAlignment, 'x')));
    made.finish();
    made.publish(file("bulk"));
    EXPECT_EQ(content("bulk"), std::string(kDirectAlignment, 'x') + bulk.text());
  }
  EXPECT_LE(refuses_writing.refusals, 1) << "asked again after a refusal";
}

TEST_F(NewFiles, TellOfABulkWriteThatFails) {
  InUse<FaultyDisk> full(fs::disk(), {{.times = Fault::kForever, .error = ENOSPC}});
  Aligned bulk(2 * kDirectAlignment);
  NewFile made(file("a"), Code::kCheckpoint);
  EXPECT_EQ(error_of([&] { made.write_bulk(0, bulk.bytes()); }),
            str("5: cannot write '", file("a").string(), "': No space left on device"));
}

TEST_F(NewFiles, AreReadPastThePageCacheUpToTheirEnd) {
  Aligned whole(2 * kDirectAlignment + 10);
  publish_file(file("a"), whole.text(), Code::kUsage);
  test::NoDirectDisk refuses(false);
  Disk real;
  for (Disk* disk : std::initializer_list<Disk*>{&real, &refuses}) {
    const DiskInUse in_use(*disk);
    DirectIo direct(file("a"), O_RDONLY, Code::kUsage);
    Aligned room(3 * kDirectAlignment);
    const std::size_t done = direct.read(0, room.bytes());
    EXPECT_TRUE(disk == &real || done == 0);
    EXPECT_LE(done, whole.text().size());
    EXPECT_EQ(room.text().substr(0, done), whole.text().substr(0, done));
    EXPECT_EQ(direct.read(0, room.bytes().first(100)), 0U) << "no whole block";
  }
}

TEST_F(NewFiles, AsDraftsHaveNamesOfTheirOwnAndGoOnRequest) {
  std::set<Path> drafts;
  for (int i = 0; i < 20; ++i) {
    NewFile draft(draft_name(file("goodput.json")), Code::kUsage);
    drafts.insert(draft.path());
    draft.keep();
  }
  EXPECT_EQ(drafts.size(), 20U);
  const Names others{"a.tmp", "a.0123456.tmp", "a.0123456G.tmp", "a.01234567", ".01234567.tmp"};
  for (const std::string& other : others) std::ofstream(file(other)) << "not a draft";
  remove_drafts(file(""));
  EXPECT_EQ(names(), others);
  remove_drafts(file("none"));
}

}  // namespace
}  // namespace echelon::fs
