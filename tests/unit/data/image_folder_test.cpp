#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <set>
#include <thread>

#include "base/files/disk.h"
#include "base/str.h"
#include "data/images/folder_images.h"
#include "data/images/synthetic_images.h"
#include "image/image_codec.h"
#include "image/image_transform.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/places.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using data::FolderImages;
using data::ImageShape;
using namespace testing;  // NOLINT

constexpr ImageShape kShape{3, 24, 3};
constexpr std::uint64_t kSeed = 5;

/// Made by Pillow once for the whole binary.
const TempDir& pictures() {
  static const TempDir dir;
  static const int made =
      std::system(str(test::test_python() + " " + test::source_dir() + "/tests/support/make_images.py ",
                      dir.path().string())
                      .c_str());
  EXPECT_EQ(made, 0);
  return dir;
}

/// Classes ant, bee and cat with five images.
class PictureFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    add("colour-0.jpg", "cat/a.jpg");
    add("palette.png", "ant/2.PNG");
    add("grey.jpeg", "ant/10.jpeg");
    add("alpha.png", "bee/sub/x.png");
    add("big.png", "bee/y.png");
    write_bytes(dir_ / "cat/.hidden", "no image");
  }
  void add(const std::string& picture, const std::string& as) {
    std::filesystem::create_directories((dir_ / as).parent_path());
    std::filesystem::copy_file(pictures() / picture, dir_ / as);
  }
  [[nodiscard]] std::vector<std::uint8_t> read(const FolderImages& images, std::int64_t index,
                                               std::int64_t sample, std::int64_t label) const {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kShape.numel()));
    EXPECT_EQ(images.read(index, sample, pixels), label);
    return pixels;
  }

  TempDir dir_;
  DataOptions options_;
};

TEST_F(PictureFolder, ListsClassesAndFilesByName) {
  const data::ImageFolder list = data::list_image_folder(dir_.path());
  EXPECT_EQ(list.classes, (std::vector<std::string>{"ant", "bee", "cat"}));
  const auto paths = mapped(list.files, [](const auto& file) { return str(file.label, " ", file.path); });
  EXPECT_EQ(paths, (std::vector<std::string>{"0 ant/10.jpeg", "0 ant/2.PNG", "1 bee/y.png", "1 bee/sub/x.png",
                                             "2 cat/a.jpg"}));
}

TEST_F(PictureFolder, ShowsTheMiddleForValidation) {
  const FolderImages images(dir_.path(), options_, kShape, {});
  const std::vector<std::uint8_t> planes = read(images, 2, 123, 1);
  const data::Image whole = data::decode_image(dir_ / "bee/y.png", 3, 1'000'000);
  const data::Image middle = data::center_view(whole, 24, 24);
  for (std::size_t i = 0; i < 24 * 24; ++i) {
    for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(planes[c * 24 * 24 + i], middle.pixels[3 * i + c]);
  }
  EXPECT_EQ(read(images, 2, 456, 1), planes);
}

TEST_F(PictureFolder, ShowsAnotherViewForEachTrainingSample) {
  const FolderImages images(dir_.path(), options_, kShape, kSeed);
  std::set<std::vector<std::uint8_t>> views;
  for (std::int64_t sample = 0; sample < 20; ++sample) views.insert(read(images, 4, sample, 2));
  EXPECT_EQ(views.size(), 20U);
  const FolderImages again(dir_.path(), options_, kShape, kSeed);
  EXPECT_EQ(read(again, 4, 7, 2), read(images, 4, 7, 2));
  options_.image.crop = Crop::kCenter;
  const FolderImages centered(dir_.path(), options_, kShape, kSeed);
  views.clear();
  for (std::int64_t sample = 0; sample < 20; ++sample) views.insert(read(centered, 4, sample, 2));
  EXPECT_EQ(views.size(), 2U);  // mirrored or not
  options_.image.flip = false;
  const FolderImages plain(dir_.path(), options_, kShape, kSeed);
  EXPECT_EQ(read(plain, 4, 1, 2), read(FolderImages(dir_.path(), options_, kShape, {}), 4, 0, 2));
}

TEST_F(PictureFolder, StopsAtAnImageThatCannotBeUsed) {
  write_bytes(dir_ / "cat/a.jpg", read_bytes(dir_ / "cat/a.jpg").substr(0, 700));
  const FolderImages images(dir_.path(), options_, kShape, kSeed);
  const std::string message = message_of([&] { (void)read(images, 4, 0, 2); });
  EXPECT_EQ(message, str("image '", (dir_ / "cat/a.jpg").string(),
                         "' is a damaged JPEG file: Premature end of JPEG file; data.on_bad_record: skip "
                         "continues without it"));
}

TEST_F(PictureFolder, SkipsImagesThatCannotBeUsedUpToTheLimit) {
  write_bytes(dir_ / "cat/a.jpg", "");
  write_bytes(dir_ / "ant/2.PNG", "no image");
  std::filesystem::remove(dir_ / "ant/10.jpeg");
  std::filesystem::create_symlink("nowhere", dir_ / "ant/10.jpeg");
  options_.on_bad_record = BadRecord::kSkip;
  options_.max_bad_records = 2;
  const FolderImages images(dir_.path(), options_, kShape, kSeed);
  ASSERT_EQ(images.size(), 5);
  (void)read(images, 4, 0, -1);
  (void)read(images, 1, 1, -1);
  (void)read(images, 4, 5, -1);  // met before
  (void)read(images, 3, 2, 1);
  EXPECT_EQ(message_of([&] { (void)read(images, 0, 3, -1); }),
            str("more than data.max_bad_records (2) image files cannot be used, the last: cannot open '",
                (dir_ / "ant/10.jpeg").string(), "': No such file or directory"));
}

TEST_F(PictureFolder, StopsAtAReadErrorBecauseTheImageMayBeWhole) {
  options_.on_bad_record = BadRecord::kSkip;
  const FolderImages images(dir_.path(), options_, kShape, kSeed);
  const test::InUse<test::FaultyDisk> disk(fs::disk(), {{.call = test::DiskCall::kRead, .error = EIO}});
  EXPECT_EQ(message_of([&] { (void)read(images, 4, 0, -1); }),
            str("cannot read '", (dir_ / "cat/a.jpg").string(), "': Input/output error"));
}

TEST_F(PictureFolder, RefusesFilesOfOtherKindsUnlessSkipped) {
  write_bytes(dir_ / "bee/notes.txt", "x");
  write_bytes(dir_ / "readme.md", "x");
  const std::string message = message_of([&] { FolderImages(dir_.path(), options_, kShape, {}); });
  EXPECT_EQ(message, str("image folder '", dir_.path().string(),
                         "' holds 2 files that are not .jpg, .jpeg or .png in a class's folder, the first "
                         "'readme.md': remove them, or set data.on_bad_record: skip"));
  options_.on_bad_record = BadRecord::kSkip;
  EXPECT_EQ(FolderImages(dir_.path(), options_, kShape, {}).size(), 5);
}

TEST_F(PictureFolder, RefusesFoldersThatAreNoClasses) {
  const auto refusal = [&](const std::filesystem::path& folder) {
    return message_of([&] { FolderImages(folder, options_, kShape, {}); });
  };
  EXPECT_MENTIONS(refusal(dir_ / "cat"), "has no subfolders");
  EXPECT_MENTIONS(refusal(dir_ / "missing"), "No such file or directory");
  EXPECT_MENTIONS(refusal(dir_ / "cat/a.jpg"), "Not a directory");
  std::filesystem::create_directory(dir_ / "dog");
  EXPECT_MENTIONS(refusal(dir_.path()), "dog' holds no .jpg, .jpeg or .png file");
  std::filesystem::remove(dir_ / "dog");
  std::filesystem::create_directory_symlink("..", dir_ / "cat/up");
  EXPECT_MENTIONS(refusal(dir_.path()), "does a link lead back");
}

TEST_F(PictureFolder, RefusesMoreClassesThanTheModelHas) {
  EXPECT_EQ(message_of([&] {
              FolderImages(dir_.path(), options_, {3, 24, 2}, {});
            }),
            str("image folder '", dir_.path().string(),
                "' has 3 subfolders, each a class, but model.classes is 2: set model.classes: 3"));
}

TEST_F(PictureFolder, RefusesAnImageAsThinAsALine) {
  std::filesystem::remove(dir_ / "cat/a.jpg");
  write_bytes(dir_ / "line.py",
              "import sys; from PIL import Image; Image.new('RGB', (4000, 30)).save(sys.argv[1])");
  ASSERT_EQ(std::system(str(test::test_python() + " ", (dir_ / "line.py").string(), " ",
                            (dir_ / "cat/a.png").string())
                            .c_str()),
            0);
  std::filesystem::remove(dir_ / "line.py");
  const FolderImages images(dir_.path(), options_, kShape, {});
  EXPECT_MENTIONS(message_of([&] { (void)read(images, 4, 0, 2); }), "4000 x 30");
}

TEST_F(PictureFolder, IsReadByManyThreadsAtOnce) {
  const FolderImages images(dir_.path(), options_, kShape, kSeed);
  std::vector<std::vector<std::uint8_t>> expected;
  for (std::int64_t i = 0; i < 5; ++i) {
    expected.emplace_back(static_cast<std::size_t>(kShape.numel()));
    (void)images.read(i, i, expected.back());
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kShape.numel()));
      for (std::int64_t i = 0; i < 50; ++i) {
        (void)images.read(i % 5, i % 5, pixels);
        if (pixels != expected[static_cast<std::size_t>(i % 5)]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SyntheticImages, DependOnSeedAndNumberOnly) {
  const data::SyntheticImages images(kShape, 3);
  const data::SyntheticImages again(kShape, 3);
  const data::SyntheticImages other(kShape, 4);
  const auto size = static_cast<std::size_t>(kShape.numel());
  std::vector<std::uint8_t> a(size);
  std::vector<std::uint8_t> b(size);
  EXPECT_EQ(images.read(77, 1, a), again.read(77, 2, b));
  EXPECT_EQ(a, b);
  (void)other.read(77, 1, b);
  EXPECT_NE(a, b);
  (void)images.read(78, 1, b);
  EXPECT_NE(a, b);
  EXPECT_NE(images.fingerprint(), other.fingerprint());
}

TEST(SyntheticImages, CanBeToldApartByTheNearestMean) {
  constexpr ImageShape kMany{1, 16, 10};
  const data::SyntheticImages images(kMany, 3);
  const auto size = static_cast<std::size_t>(kMany.numel());
  std::vector<std::vector<double>> means(10, std::vector<double>(size));
  std::vector<int> counts(10);
  std::vector<std::uint8_t> pixels(size);
  for (std::int64_t i = 0; i < 500; ++i) {
    const auto label = static_cast<std::size_t>(images.read(i, i, pixels));
    ++counts[label];
    for (std::size_t p = 0; p < size; ++p) means[label][p] += pixels[p];
  }
  int right = 0;
  for (std::int64_t i = 500; i < 700; ++i) {
    const auto label = static_cast<std::size_t>(images.read(i, i, pixels));
    std::vector<double> distances;
    for (std::size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < size; ++p)
        distance += std::pow(means[c][p] / counts[c] - static_cast<double>(pixels[p]), 2);
      distances.push_back(distance);
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += static_cast<std::size_t>(nearest) == label ? 1 : 0;
  }
  EXPECT_GE(right, 195);
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 20);
}

}  // namespace
}  // namespace echelon
