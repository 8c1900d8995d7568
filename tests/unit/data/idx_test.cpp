#include "base/str.h"
#include "data/images/idx_file.h"
#include "data/images/idx_images.h"
#include "support/matches.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using data::IdxImages;
using data::read_idx;
using namespace testing;  // NOLINT

/// `count` images of 3 x 3 pixels that count 0, 1, 2 ...
std::string images_bytes(std::uint32_t count) {
  std::string pixels;
  for (std::uint32_t i = 0; i < count * 9; ++i) pixels += static_cast<char>(i);
  return idx_bytes({count, 3, 3}, pixels);
}

std::string labels_bytes(const std::string& labels) {
  return idx_bytes({static_cast<std::int64_t>(labels.size())}, labels);
}

/// Four images and their labels under MNIST's names.
class IdxFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    write_bytes(images_, images_bytes(4));
    write_bytes(labels_, labels_bytes({0, 2, 1, 0}));
  }
  std::string refusal(const data::ImageShape& shape = {1, 3, 3}) {
    return message_of([&] { IdxImages(images_, "", shape); });
  }
  [[nodiscard]] std::string of_images(std::string_view rest) const {
    return str("idx file '", images_.string(), "' ", rest);
  }

  TempDir dir_;
  std::filesystem::path images_ = dir_ / "train-images-idx3-ubyte";
  std::filesystem::path labels_ = dir_ / "train-labels-idx1-ubyte";
};

TEST_F(IdxFolder, GivesImagesWithTheirLabels) {
  const IdxImages images(images_, "", {1, 3, 3});
  ASSERT_EQ(images.size(), 4);
  std::vector<std::uint8_t> pixels(9);
  EXPECT_EQ(images.read(1, 77, pixels), 2);
  EXPECT_EQ(pixels, (std::vector<std::uint8_t>{9, 10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(images.read(3, 0, pixels), 0);
  EXPECT_EQ(pixels[8], 35);
}

TEST_F(IdxFolder, IsTheSameCompressed) {
  const auto plain = IdxImages(images_, "", {1, 3, 3}).fingerprint();
  std::filesystem::remove(images_);
  std::filesystem::remove(labels_);
  write_bytes(dir_ / "train-images-idx3-ubyte.gz", gzip(images_bytes(4)));
  write_bytes(dir_ / "train-labels-idx1-ubyte.gz", gzip(labels_bytes({0, 2, 1, 0})));
  const IdxImages images(dir_ / "train-images-idx3-ubyte.gz", "", {1, 3, 3});
  EXPECT_EQ(images.size(), 4);
  EXPECT_EQ(images.fingerprint(), plain);
}

TEST_F(IdxFolder, IsReadByItsContentWhateverItsName) {
  write_bytes(images_, gzip(images_bytes(4)));
  EXPECT_EQ(IdxImages(images_, "", {1, 3, 3}).size(), 4);
  const auto plain = dir_ / "plain-images.gz";
  write_bytes(plain, images_bytes(4));
  EXPECT_EQ(read_idx(plain, 3).dimensions, (std::vector<std::int64_t>{4, 3, 3}));
}

TEST_F(IdxFolder, MixesPlainAndCompressed) {
  std::filesystem::remove(labels_);
  write_bytes(dir_ / "train-labels-idx1-ubyte.gz", gzip(labels_bytes({0, 2, 1, 0})));
  EXPECT_EQ(IdxImages(images_, "", {1, 3, 3}).size(), 4);
}

TEST_F(IdxFolder, TellsWhichLabelsItLookedFor) {
  std::filesystem::remove(labels_);
  EXPECT_EQ(refusal(),
            str("no labels beside '", images_.string(),
                "': looked for 'train-labels-idx1-ubyte' and 'train-labels-idx1-ubyte.gz'; name the "
                "file in data.labels"));
  write_bytes(dir_ / "pixels", images_bytes(4));
  EXPECT_MENTIONS(message_of([&] { IdxImages(dir_ / "pixels", "", {1, 3, 3}); }), "data.labels");
  write_bytes(dir_ / "classes", labels_bytes({0, 1, 1, 0}));
  EXPECT_EQ(IdxImages(dir_ / "pixels", dir_ / "classes", {1, 3, 3}).size(), 4);
}

TEST_F(IdxFolder, RefusesLabelsOutOfRangeOrOfAnotherNumber) {
  EXPECT_EQ(refusal({1, 3, 2}),
            str("idx file '", labels_.string(),
                "' has label 2 at image 1, but model.classes is 2: labels must be below it"));
  write_bytes(labels_, labels_bytes({0, 1, 1}));
  EXPECT_EQ(refusal(), str("idx file '", labels_.string(),
                           "' holds 3 labels for 4 images: they belong to another images file"));
}

TEST_F(IdxFolder, RefusesAnotherShape) {
  EXPECT_EQ(refusal({1, 28, 3}),
            of_images("holds images of 3 x 3 pixels, but model.image_size is 28: set model.image_size: 3"));
  EXPECT_EQ(refusal({3, 3, 3}),
            of_images("holds grey images, but model.channels is 3: set model.channels: 1"));
}

TEST_F(IdxFolder, RefusesImagesAndLabelsSwapped) {
  EXPECT_EQ(message_of([&] {
              IdxImages(labels_, images_, {1, 3, 3});
            }),
            str("idx file '", labels_.string(),
                "' has 1 dimensions, expected 3: images have 3 (data.path), labels 1 (data.labels)"));
}

TEST_F(IdxFolder, RefusesForeignFiles) {
  write_bytes(images_, "\x89PNG and so on");
  EXPECT_EQ(refusal(),
            of_images("is not an idx file: it starts with the bytes 89 50 4e 47, expected 00 00 08 03"));
  write_bytes(images_, std::string("\0\0\x0D\x03\0\0\0\x01", 8));
  EXPECT_EQ(refusal(), of_images("holds numbers that are not unsigned bytes: it starts with 00 00 0d 03, "
                                 "expected 00 00 08 03"));
  std::filesystem::remove(images_);
  EXPECT_EQ(refusal(), str("cannot open '", images_.string(), "': No such file or directory"));
  std::filesystem::create_directory(images_);
  EXPECT_EQ(refusal(), str("'", images_.string(), "' is not a regular file"));
}

TEST_F(IdxFolder, RefusesEveryCutAndEveryExtension) {
  const std::string whole = images_bytes(4);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(images_, whole.substr(0, size));
    EXPECT_MENTIONS(refusal(), "cut short") << size;
  }
  write_bytes(images_, whole + "x");
  EXPECT_EQ(refusal(), of_images("is longer than its header says"));
}

TEST_F(IdxFolder, RefusesEveryCutOfCompressedData) {
  const auto zipped = dir_ / "a-images.gz";
  write_bytes(zipped, gzip(images_bytes(4)));
  const std::string whole = read_bytes(zipped);
  for (std::size_t size = 2; size < whole.size(); ++size) {
    write_bytes(zipped, whole.substr(0, size));
    const std::string message = message_of([&] { (void)read_idx(zipped, 3); });
    EXPECT_MENTIONS(message, "cut short") << size << ": " << message;
  }
  std::string damaged = whole;
  damaged[whole.size() - 6] ^= 1;  // gzip's checksum of the content
  write_bytes(zipped, damaged);
  const std::string message = message_of([&] { (void)read_idx(zipped, 3); });
  EXPECT_TRUE(message.starts_with(
      str("source '", zipped.string(), "' contains data that is not gzip (incorrect data check) at byte ")))
      << message;
}

TEST_F(IdxFolder, TakesNoMemoryForSizesThatCannotBe) {
  write_bytes(images_, idx_bytes({4'000'000'000, 1, 1}, "abc"));
  EXPECT_EQ(refusal(), of_images("is cut short: its header states 4000000000 more bytes"));
  write_bytes(images_, idx_bytes({4'000'000'000, 4'000'000'000, 4'000'000'000}, ""));
  EXPECT_EQ(refusal(), of_images("claims more than 16.0 GiB, which is not accepted"));
  write_bytes(images_, idx_bytes({0, 3, 3}, ""));
  EXPECT_EQ(refusal(), of_images("has a dimension of size 0: it holds nothing"));
  const auto zipped = dir_ / "a-images.gz";
  write_bytes(zipped, gzip(idx_bytes({4'000'000'000, 1, 1}, "")));
  EXPECT_MENTIONS(message_of([&] { (void)read_idx(zipped, 3); }), "cut short");
}

}  // namespace
}  // namespace echelon
