#include "data/images/image_loader.h"

#include <algorithm>
#include <set>

#include "base/str.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using data::ImageShape;
using namespace testing;  // NOLINT

constexpr ImageShape kShape{1, 2, 40};
constexpr std::int64_t kImages = 40;

/// 40 images of 2 x 2; image i has label i and pixels i, i + 50, i + 100, i + 150.
class NumberedImages : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pixels;
    std::string labels;
    for (int i = 0; i < kImages; ++i) {
      for (const int offset : {0, 50, 100, 150}) pixels += static_cast<char>(i + offset);
      labels += static_cast<char>(i);
    }
    write_bytes(dir_ / "images", idx_bytes({kImages, 2, 2}, pixels));
    write_bytes(dir_ / "labels", idx_bytes({kImages}, labels));
    options_.kind = DataKind::kIdx;
    options_.path = (dir_ / "images").string();
    options_.validation.path = options_.path;
  }
  [[nodiscard]] std::unique_ptr<Loader> loader(std::uint64_t seed = 3) const {
    return make_loader(options_, {0, kShape}, seed);
  }

  TempDir dir_;
  DataOptions options_;
};

TEST_F(NumberedImages, BecomeValuesFromZeroToOneOfTheirLabel) {
  const SampleBatch batch = loader()->read(0, kImages);
  EXPECT_EQ(batch.samples, kImages);
  EXPECT_EQ(batch.image_shape, (std::array<std::int64_t, 3>{1, 2, 2}));
  ASSERT_EQ(batch.images.size(), 4U * kImages);
  for (std::size_t row = 0; row < kImages; ++row) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto level = static_cast<float>(batch.targets[row] + static_cast<std::int64_t>(50 * i));
      EXPECT_EQ(batch.images[4 * row + i], level / 255.0F);
    }
  }
}

TEST_F(NumberedImages, AreNormalized) {
  const SampleBatch plain = loader()->read(0, kImages);
  options_.mean = {0.1307};
  options_.std = {0.3081};
  const SampleBatch batch = loader()->read(0, kImages);
  EXPECT_EQ(batch.targets, plain.targets);
  for (std::size_t i = 0; i < batch.images.size(); ++i)
    EXPECT_EQ(batch.images[i], (plain.images[i] - 0.1307F) / 0.3081F);
}

TEST_F(NumberedImages, ComeOnceAnEpochInAnotherOrderEach) {
  const auto images = loader();
  EXPECT_EQ(images->samples_per_epoch(), kImages);
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    const std::vector<std::int64_t> labels = images->read(epoch * kImages, kImages).targets;
    EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), static_cast<std::size_t>(kImages));
    orders.insert(labels);
  }
  EXPECT_EQ(orders.size(), 4U);
}

TEST_F(NumberedImages, AreTheSameHoweverTheyAreRead) {
  const SampleBatch whole = loader()->read(30, 30);  // over the end of the epoch
  std::vector<std::int64_t> labels;
  for (const auto& [first, count] : {std::pair(30, 7), std::pair(37, 1), std::pair(38, 22)}) {
    const SampleBatch part = loader()->read(first, count);  // each rank opens its own
    EXPECT_EQ(part.first_sample, first);
    labels.insert(labels.end(), part.targets.begin(), part.targets.end());
  }
  EXPECT_EQ(labels, whole.targets);
}

TEST_F(NumberedImages, ValidateInOneOrderThatIsNotTheFiles) {
  const auto images = make_validation_loader(options_, {0, kShape}, 1);
  const std::vector<std::int64_t> labels = images->read(0, kImages).targets;
  EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), static_cast<std::size_t>(kImages)) << "each once";
  EXPECT_FALSE(std::ranges::is_sorted(labels));
  options_.shuffle = false;
  EXPECT_EQ(make_validation_loader(options_, {0, kShape}, 2)->read(0, kImages).targets, labels);
  options_.validation.path.clear();
  EXPECT_EQ(make_validation_loader(options_, {0, kShape}, 1), nullptr);
}

TEST_F(NumberedImages, AreToldApartByTheirFingerprint) {
  std::set<std::uint32_t> all{loader(3)->fingerprint(), loader(4)->fingerprint()};
  options_.mean = {0.5};
  all.insert(loader(3)->fingerprint());
  options_.shuffle = false;
  all.insert(loader(3)->fingerprint());
  EXPECT_EQ(loader(4)->fingerprint(), loader(3)->fingerprint());  // without shuffling the seed has no part
  std::string images = read_bytes(options_.path);
  images.back() ^= 1;
  write_bytes(options_.path, images);
  all.insert(loader(3)->fingerprint());
  EXPECT_EQ(all.size(), 5U);
}

TEST_F(NumberedImages, HaveNoTokenizer) {
  write_bytes(dir_ / "tokenizer.model", "not theirs");
  EXPECT_EQ(tokenizer_path(options_), "");
}

TEST(SyntheticImageLoader, NeedsNoFile) {
  DataOptions options;
  options.kind = DataKind::kSyntheticImages;
  options.mean = {0.1, 0.2, 0.3};
  const auto images = make_loader(options, {0, {3, 8, 5}}, 3);
  const SampleBatch batch = images->read(10, 6);
  EXPECT_EQ(batch.images.size(), 6U * 3 * 8 * 8);
  EXPECT_EQ(images->read(12, 1).images,
            std::vector<float>(batch.images.begin() + 2 * 192, batch.images.begin() + 3 * 192));
}

TEST(SyntheticImageLoader, ValidatesOnImagesThatTrainingDoesNotSee) {
  DataOptions options;
  options.kind = DataKind::kSyntheticImages;
  options.shuffle = false;
  const ModelInput input{0, {1, 8, 3}};
  EXPECT_EQ(make_validation_loader(options, input, 3), nullptr);
  options.validation.samples = 60;
  const auto held_out = make_validation_loader(options, input, 3);
  ASSERT_EQ(held_out->samples_per_epoch(), 60);
  const SampleBatch theirs = held_out->read(0, 60);
  const SampleBatch ours = make_loader(options, input, 3)->read(0, 60);
  EXPECT_EQ(held_out->read(60, 60).images, theirs.images) << "a second pass sees the same";
  EXPECT_EQ(make_validation_loader(options, input, 3)->read(0, 60).images, theirs.images);
  EXPECT_NE(make_validation_loader(options, input, 4)->read(0, 60).images, theirs.images);
  EXPECT_EQ(std::set<std::int64_t>(theirs.targets.begin(), theirs.targets.end()).size(), 3U);
  const auto image = [](const SampleBatch& batch, int i) {
    return batch.images.begin() + i * std::ptrdiff_t{64};
  };
  int same_class = 0;
  for (int i = 0; i < 60; ++i) {
    // What training learned of the classes holds: the nearest of its images is of the same class.
    double least = 1e9;
    std::int64_t nearest = -1;
    for (int k = 0; k < 60; ++k) {
      double distance = 0;
      for (int p = 0; p < 64; ++p) distance += std::abs(image(theirs, i)[p] - image(ours, k)[p]);
      EXPECT_GT(distance, 0) << "held-out image " << i << " is image " << k << " of training";
      if (distance < least) nearest = ours.targets[static_cast<std::size_t>(k)];
      least = std::min(least, distance);
    }
    same_class += nearest == theirs.targets[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  EXPECT_GE(same_class, 57);
}

/// A gray PNG of one pixel of level 200.
void write_pixel(const std::filesystem::path& path) {
  static constexpr unsigned char kPng[] = {
      0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0x00, 0x00, 0x00, 0x0D, 0x49, 0x48, 0x44, 0x52, 0x00,
      0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00, 0x00, 0x3A, 0x7E, 0x9B, 0x55, 0x00,
      0x00, 0x00, 0x0A, 0x49, 0x44, 0x41, 0x54, 0x78, 0xDA, 0x63, 0x38, 0x01, 0x00, 0x00, 0xCA, 0x00, 0xC9,
      0x34, 0x42, 0x27, 0xF3, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82};
  write_bytes(path, {reinterpret_cast<const char*>(kPng), sizeof kPng});
}

TEST(ImageFolderLoader, TakesAnImageThatCannotBeUsedForARowOfZerosThatDoesNotCount) {
  const TempDir dir;
  for (const char* name : {"a/0.png", "a/1.png", "b/0.png"}) write_pixel(dir / name);
  write_bytes(dir / "a/1.png", "broken");
  DataOptions options;
  options.kind = DataKind::kImageFolder;
  options.path = dir.path().string();
  options.shuffle = false;
  options.mean = {0.5};
  options.on_bad_record = BadRecord::kSkip;
  const SampleBatch batch = make_loader(options, {0, {1, 1, 2}}, 3)->read(0, 3);
  EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{0, -1, 1}));
  EXPECT_EQ(batch.images, (std::vector<float>{200 / 255.0F - 0.5F, 0, 200 / 255.0F - 0.5F}));
}

TEST(ImageFolderLoader, ValidatesOnAllClassesInAPartOfTheImages) {
  const TempDir dir;
  for (int i = 0; i < 120; ++i) write_pixel(dir / str(i % 3, "/", i, ".png"));
  DataOptions options;
  options.kind = DataKind::kImageFolder;
  options.path = dir.path().string();
  options.validation.path = options.path;
  const SampleBatch part = make_validation_loader(options, {0, {1, 1, 3}}, 1)->read(0, 32);
  for (const std::int64_t label : {0, 1, 2}) EXPECT_GE(std::ranges::count(part.targets, label), 5) << label;
}

TEST(ImageFolderLoader, RefusesAValidationFolderOfOtherClasses) {
  const TempDir dir;
  for (const char* name : {"train/a/0.png", "train/b/0.png", "valid/a/0.png", "valid/c/0.png"})
    write_pixel(dir / name);
  DataOptions options;
  options.kind = DataKind::kImageFolder;
  options.path = (dir / "train").string();
  options.validation.path = (dir / "valid").string();
  EXPECT_EQ(message_of([&] {
              (void)make_validation_loader(options, {0, {1, 1, 2}}, 1);
            }),
            str("image folders '", options.path, "' and '", options.validation.path,
                "' have different classes, so their labels do not correspond: the first that differs is 'b' "
                "and 'c'"));
  std::filesystem::rename(dir / "valid/c", dir / "valid/b");
  EXPECT_EQ(make_validation_loader(options, {0, {1, 1, 2}}, 1)->samples_per_epoch(), 2);
}

}  // namespace
}  // namespace echelon
