#include <algorithm>
#include <sstream>

#include "base/str.h"
#include "image/image_codec.h"
#include "image/image_transform.h"
#include "support/matches.h"
#include "support/places.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using data::Image;
using namespace testing;  // NOLINT

constexpr std::int64_t kManyPixels = 1'000'000;

/// One line of what tests/support/make_images.py wrote.
struct Case {
  std::string kind, file;
  Image expected;
  std::int64_t shorter = 0;
};

/// Images and what Pillow makes of them.
class ImagesOfPillow : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string command =
        str(test::test_python() + " " + test::source_dir() + "/tests/support/make_images.py ",
            dir_.path().string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    std::istringstream lines(read_bytes(dir_ / "cases.txt"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      Case c;
      std::string raw;
      words >> c.kind >> c.file >> raw >> c.expected.channels >> c.expected.width >> c.expected.height >>
          c.shorter;
      const std::string bytes = read_bytes(dir_ / raw);
      c.expected.pixels.assign(bytes.begin(), bytes.end());
      cases_.push_back(c);
    }
    ASSERT_GT(cases_.size(), 30U);
  }

  /// The largest difference of a pixel; 256 for another shape.
  static int difference(const Image& a, const Image& b) {
    if (a.width != b.width || a.height != b.height || a.channels != b.channels ||
        a.pixels.size() != b.pixels.size())
      return 256;
    int most = 0;
    for (std::size_t i = 0; i < a.pixels.size(); ++i)
      most = std::max(most, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
    return most;
  }

  [[nodiscard]] Image decoded(const std::string& file, std::int64_t channels) const {
    return data::decode_image(dir_ / file, channels, kManyPixels);
  }

  TempDir dir_;
  std::vector<Case> cases_;
};

TEST_F(ImagesOfPillow, AreDecodedToTheSamePixels) {
  for (const Case& c : cases_) {
    if (c.kind != "decode") continue;
    // Versions of libjpeg may round their interpolation of colors in another way.
    const int allowed = c.file.ends_with(".png") ? 0 : 2;
    EXPECT_LE(difference(decoded(c.file, c.expected.channels), c.expected), allowed)
        << c.file << " to " << c.expected.channels << " channels";
  }
}

TEST_F(ImagesOfPillow, AreResizedBitForBitTheSame) {
  for (const Case& c : cases_) {
    if (c.kind == "decode") continue;
    const Image whole = decoded(c.file, 3);
    const Image result = c.kind == "resize" ? data::resize(whole, c.expected.width, c.expected.height)
                                            : data::center_view(whole, c.shorter, c.expected.width);
    EXPECT_EQ(difference(result, c.expected), 0)
        << c.kind << " to " << c.expected.width << " x " << c.expected.height;
  }
}

TEST_F(ImagesOfPillow, CutShortAnywhereAreRefused) {
  for (const char* file : {"colour-2.jpg", "progressive.jpg", "colour.png"}) {
    const std::string bytes = read_bytes(dir_ / file);
    for (std::size_t size = 0; size + 16 < bytes.size(); size += 37) {
      write_bytes(dir_ / "cut", bytes.substr(0, size));
      const std::string message = message_of([&] { (void)decoded("cut", 3); });
      EXPECT_MENTIONS(message, "cut' ");
    }
  }
}

TEST_F(ImagesOfPillow, AreRefusedAboveTheLimitOfPixels) {
  for (const char* file : {"colour-0.jpg", "colour.png"}) {
    EXPECT_EQ(message_of([&] { (void)data::decode_image(dir_ / file, 3, 61 * 43 - 1); }),
              str("image '", (dir_ / file).string(),
                  "' has 61 x 43 pixels; at most 2622 are accepted: raise data.image.max_pixels if this size "
                  "is intended"));
    EXPECT_EQ(data::decode_image(dir_ / file, 3, 61 * 43).width, 61);
  }
}

TEST(ImageFile, OfAnotherKindIsRefused) {
  const TempDir dir;
  const auto refusal = [&](std::string_view bytes) {
    write_bytes(dir / "a.jpg", bytes);
    return message_of([&] { (void)data::decode_image(dir / "a.jpg", 3, kManyPixels); });
  };
  const std::string named = str("image '", (dir / "a.jpg").string(), "' ");
  EXPECT_EQ(refusal(""), named + "is an empty file");
  EXPECT_EQ(refusal("GIF89a...."), named + "is neither JPEG nor PNG: it starts with 'GIF89a..'");
  EXPECT_EQ(refusal("\xFF\xD8\xFF\xD9"), named + "is a damaged JPEG file: JPEG datastream contains no image");
  EXPECT_EQ(refusal("\x89PNG\r\n\x1A\n"), named + "is a damaged PNG file: it ends early");
}

TEST(ImageFile, OfSizeZeroIsRefused) {
  const TempDir dir;
  // IHDR of 0 x 5 pixels with its right checksum.
  const std::string_view bytes(
      "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\0\0\0\0\x05\x08\x02\0\0\0\xE4\x24\x7A\xF6", 33);
  write_bytes(dir / "a.png", bytes);
  EXPECT_EQ(message_of([&] { (void)data::decode_image(dir / "a.png", 3, kManyPixels); }),
            str("image '", (dir / "a.png").string(), "' is a damaged PNG file: Invalid IHDR data"));
}

TEST(ImageFile, WiderThanAllPixelsThatAreAcceptedIsNotCalledDamaged) {
  const TempDir dir;
  // IHDR of 200000001 x 1 pixels with its right checksum, and the beginning of the pixels.
  const std::string_view bytes(
      "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\x0B\xEB\xC2\x01\0\0\0\x01\x08\x02\0\0\0\xB7\x7C\xDE\x2A\0\0\0\0IDAT",
      41);
  write_bytes(dir / "a.png", bytes);
  EXPECT_EQ(message_of([&] { (void)data::decode_image(dir / "a.png", 3, kManyPixels); }),
            str("image '", (dir / "a.png").string(), "' has 200000001 x 1 pixels; at most ", kManyPixels,
                " are accepted: raise data.image.max_pixels if this size is intended"));
}

TEST(Image, MirroredTwiceIsItself) {
  Image image{3, 2, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19}};
  const Image before = image;
  data::flip_horizontally(image);
  EXPECT_EQ(image.pixels,
            (std::vector<std::uint8_t>{7, 8, 9, 4, 5, 6, 1, 2, 3, 17, 18, 19, 14, 15, 16, 11, 12, 13}));
  data::flip_horizontally(image);
  EXPECT_EQ(image.pixels, before.pixels);
}

TEST(RandomBox, LiesInsideAndVariesWithTheSampleOnly) {
  Image image{97, 61, 1, {}};
  double share = 0;
  std::int64_t widest = 0;
  constexpr std::uint64_t kSamples = 2000;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const data::Box box = data::random_box(image, {0.08, 1.0}, 5, sample);
    const data::Box again = data::random_box(image, {0.08, 1.0}, 5, sample);
    EXPECT_EQ(std::tie(box.left, box.top, box.width, box.height),
              std::tie(again.left, again.top, again.width, again.height));
    ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.left + box.width <= 97 && box.top + box.height <= 61);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_TRUE(ratio > 0.65 && ratio < 1.55) << ratio;
    share += static_cast<double>(box.width * box.height) / (97.0 * 61.0) / kSamples;
    widest = std::max(widest, box.width);
  }
  // What a hundred times as many boxes have that Python's random numbers draw by the same rule.
  EXPECT_NEAR(share, 0.374, 0.02);
  EXPECT_GT(widest, 75);
}

TEST(RandomBox, OfAThinImageIsTheMiddle) {
  const data::Box box = data::random_box({300, 10, 1, {}}, {0.5, 1.0}, 5, 1);
  EXPECT_EQ(std::tuple(box.left, box.top, box.width, box.height), std::tuple(143, 0, 13, 10));
}

TEST(RandomFlip, MirrorsHalfOfTheSamples) {
  int flipped = 0;
  for (std::uint64_t sample = 0; sample < 10000; ++sample) flipped += data::random_flip(9, sample) ? 1 : 0;
  EXPECT_NEAR(flipped, 5000, 250);
}

}  // namespace
}  // namespace echelon
