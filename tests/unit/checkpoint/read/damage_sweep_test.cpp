// A bit of every byte of a small checkpoint flipped (of COMMIT all 8), every file cut at one length of three
// (in the long form every bit, every length): nothing goes unnoticed, and what is said points at the place.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/contents.h"
#include "support/long_form.h"
#include "support/matches.h"
#include "support/memory_disk.h"
#include "unit/checkpoint/tiny_run.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

const std::vector<std::string> kFiles{"COMMIT", "MANIFEST.json", "recipe.yaml", "shard-00000-of-00002.h5",
                                      "shard-00001-of-00002.h5"};

/// One checkpoint of two ranks with as few bytes as there can be: each tensor lies on both.
class Small {
 public:
  Small() : disk_(DiskTree("/run")), in_use_(disk_) {
    fs::make_directories(folder_, Code::kCheckpoint);
    write_shards(example_);
    commit(folder_, commit_info(example_));
  }

  [[nodiscard]] const Path& folder() const { return folder_; }
  [[nodiscard]] MemoryDisk& disk() { return disk_; }
  [[nodiscard]] const Example& example() const { return example_; }

  void write_shards(const Example& example) const {
    const auto contents = contents_of(example.tensors);
    for (int rank = 0; rank < example.ranks; ++rank) {
      write_shard(folder_, rank, example.ranks, example.save_id, slices_of(example, rank, contents));
    }
  }

  [[nodiscard]] std::uint64_t size(const std::string& file) const {
    struct stat info {};
    EXPECT_EQ(fs::disk().lstat((folder_ / file).c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_size);
  }
  [[nodiscard]] std::string content(const std::string& file) const {
    return fs::read_file(folder_ / file, 1 << 20, Code::kCheckpoint);
  }
  void put(const std::string& file, const std::string& text) const {
    const fs::Fd fd = fs::open(folder_ / file, O_WRONLY | O_CREAT | O_TRUNC, Code::kCheckpoint);
    fs::write_at(fd, 0, std::as_bytes(std::span(text)), Code::kCheckpoint, folder_ / file);
  }

 private:
  MemoryDisk disk_;
  fs::DiskInUse in_use_;
  Example example_{.tensors = {{"model/w", DType::kF32, {11}}, {"optim/w", DType::kBF16, {6}}}};
  Path folder_ = Path("/run") / step_folder_name(example_.step, example_.save_id);
};

/// A file held open, one bit of which can be flipped and flipped back.
class Flips {
 public:
  Flips(const Small& small, const std::string& file)
      : path_(small.folder() / file), fd_(fs::open(path_, O_RDWR, Code::kCheckpoint)) {}
  void flip(std::uint64_t byte, int bit) {
    std::byte value{};
    fs::read_at(fd_, byte, {&value, 1}, Code::kCheckpoint, path_);
    value ^= static_cast<std::byte>(1 << bit);
    fs::write_at(fd_, byte, {&value, 1}, Code::kCheckpoint, path_);
  }

 private:
  Path path_;
  fs::Fd fd_;
};

/// What a flip of a byte must lead to.
struct Place {
  std::string file;
  int rank = -1;                      ///< of a shard
  bool opens = true;                  ///< nothing that opening reads lies here
  const ShardEntry* entry = nullptr;  ///< the tensor piece that the byte belongs to
};

/// Does `report` point at the byte?
std::string misses(const VerifyReport& report, const Place& place, std::uint64_t byte) {
  if (report.damages.size() != 1) return str(report.damages.size(), " damages");
  const Damage& damage = report.damages.front();
  if (!mentions(damage.problem, place.file)) return "does not name the file: " + damage.problem;
  if (damage.rank != place.rank) return str("rank ", damage.rank);
  if (place.rank < 0 || !place.opens) return "";
  if (byte < damage.byte_begin || byte >= damage.byte_end) return str("bytes up to ", damage.byte_end);
  if (damage.tensor != (place.entry == nullptr ? "" : place.entry->tensor.name))
    return "tensor " + damage.tensor;
  return "";
}

/// Does reading fail for what the byte belongs to, and for nothing else?
std::string misreads(const Small& small, const Place& place) {
  std::unique_ptr<Reader> reader;
  const std::string error = error_of([&] { reader = std::make_unique<Reader>(small.folder()); });
  if (place.opens == (reader == nullptr)) return reader == nullptr ? error : "opens";
  if (reader == nullptr) return mentions(error, place.file) ? "" : "does not name the file: " + error;
  for (const TensorInfo& tensor : small.example().tensors) {
    const bool concerned = place.entry != nullptr && place.entry->tensor.name == tensor.name;
    std::vector<std::byte> bytes;
    const std::string told = error_of([&] { bytes = read_all(*reader, tensor); });
    if (!concerned && bytes != content_of(tensor)) return str(tensor.name, " is not as it was: ", told);
    if (concerned && !(mentions(told, place.file) && mentions(told, str("(rank ", place.rank, ")")) &&
                       mentions(told, "'" + tensor.name + "'") && mentions(told, "file bytes "))) {
      return str(tensor.name, ": ", told);
    }
  }
  const std::string told = error_of([&] { (void)reader->attachment("recipe.yaml"); });
  return told.empty() == (place.file == "recipe.yaml") ? "recipe.yaml: " + told : "";
}

TEST(DamageSweep, EveryFlippedBitIsFoundAndPlaced) {
  const Small small;
  const Contents contents = load_contents(small.folder());
  std::uint64_t bits = 0;
  for (const std::string& file : kFiles) {
    Place place{.file = file, .opens = file == "recipe.yaml"};
    if (file.starts_with("shard")) place.rank = file[10] - '0';
    Flips flips(small, file);
    for (std::uint64_t byte = 0; byte < small.size(file); ++byte) {
      if (place.rank >= 0) {
        const ShardIndex& index = contents.shards[static_cast<std::size_t>(place.rank)];
        place.opens = byte >= index.index_bytes;
        place.entry = nullptr;
        for (const ShardEntry& entry : index.entries) {
          if (byte >= entry.file_offset && byte < entry.file_offset + entry.bytes) place.entry = &entry;
        }
      }
      for (int bit = 0; bit < 8; ++bit) {
        if (!echelon::test::long_form() && file != "COMMIT" && bit != static_cast<int>(byte % 8)) continue;
        ++bits;
        flips.flip(byte, bit);
        const VerifyReport report = verify(small.folder(), VerifyDepth::kDeep, {});
        const std::string wrong = misses(report, place, byte);
        ASSERT_EQ(wrong, "") << file << " byte " << byte << " bit " << bit;
        // Reading looks at less than verify(); in the zeros between the pieces one bit a byte will do.
        if (!place.opens || place.entry != nullptr || bit == static_cast<int>(byte % 8)) {
          ASSERT_EQ(misreads(small, place), "") << file << " byte " << byte << " bit " << bit;
        }
        flips.flip(byte, bit);
      }
    }
  }
  EXPECT_TRUE(verify(small.folder(), VerifyDepth::kDeep, {}).damages.empty());
  RecordProperty("bits", static_cast<int>(bits));
}

TEST(DamageSweep, EveryLengthButTheRightOneIsFound) {
  const Small small;
  for (const std::string& file : kFiles) {
    const std::string whole = small.content(file);
    const fs::Fd fd = fs::open(small.folder() / file, O_RDWR, Code::kCheckpoint);
    const auto found = [&] {
      const auto damages = verify(small.folder(), VerifyDepth::kQuick, {}).damages;
      return damages.size() == 1 && mentions(damages.front().problem, file);
    };
    for (const std::size_t more : {1U, 511U, 4096U}) {
      const std::string tail(more, '\n');
      fs::write_at(fd, whole.size(), std::as_bytes(std::span(tail)), Code::kCheckpoint, file);
      EXPECT_TRUE(found()) << file << " with " << more << " bytes more";
    }
    for (std::size_t size = whole.size(); size-- > 0;) {
      if (!echelon::test::long_form() && size % 3 != 0 && size + 64 < whole.size()) continue;
      ASSERT_EQ(fs::disk().ftruncate(fd.get(), static_cast<off_t>(size)), 0);
      ASSERT_TRUE(found()) << file << " cut to " << size;
    }
    small.put(file, whole);
  }
  EXPECT_TRUE(verify(small.folder(), VerifyDepth::kDeep, {}).damages.empty());
}

}  // namespace
}  // namespace echelon::checkpoint
