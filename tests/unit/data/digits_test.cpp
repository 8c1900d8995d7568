#include "data/images/digits.h"

#include <cmath>

#include "base/str.h"
#include "data/images/idx_file.h"
#include "image/image_transform.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using data::prepare_digits;
using data::read_idx;
using testing::message_of;
using testing::TempDir;
using testing::write_bytes;

/// Line `number`: value i of it is (number + i) modulo 17, its label number modulo 10.
std::string line(int number) {
  std::string text;
  for (int i = 0; i < 64; ++i) text += str((number + i) % 17, ",");
  return str(text, number % 10, "\n");
}

class Digits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int number = 1; number <= 13; ++number) text += line(number);
    write_bytes(source_, text);
  }
  std::string refusal(const std::string& text) {
    write_bytes(source_, text);
    return message_of([&] { prepare_digits({source_, output_}); });
  }
  TempDir dir_;
  std::filesystem::path source_ = dir_ / "digits.csv";
  std::filesystem::path output_ = dir_ / "out";
};

TEST_F(Digits, BecomeImagesWithABorder) {
  const data::DigitsReport report = prepare_digits({source_, output_});
  EXPECT_EQ(report.train_images, 11);
  EXPECT_EQ(report.test_images, 2);
  const auto labels = read_idx(output_ / "train-labels-idx1-ubyte", 1).values;
  EXPECT_EQ(labels, (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 7, 8, 9, 0, 1, 3}));
  EXPECT_EQ(read_idx(output_ / "test-labels-idx1-ubyte", 1).values, (std::vector<std::uint8_t>{6, 2}));
  const data::IdxFile test = read_idx(output_ / "test-images-idx3-ubyte", 3);
  EXPECT_EQ(test.dimensions, (std::vector<std::int64_t>{2, 28, 28}));
  data::Image small{8, 8, 1, {}};
  for (int i = 0; i < 64; ++i)
    small.pixels.push_back(static_cast<std::uint8_t>(std::lround((6 + i) % 17 * 255 / 16.0)));
  const data::Image large = data::resize(small, 24, 24);
  for (std::int64_t y = 0; y < 28; ++y) {
    for (std::int64_t x = 0; x < 28; ++x) {
      const bool inside = x >= 2 && x < 26 && y >= 2 && y < 26;
      ASSERT_EQ(test.values[static_cast<std::size_t>(y * 28 + x)], inside ? large.row(y - 2)[x - 2] : 0);
    }
  }
}

TEST_F(Digits, LeaveOtherFilesOfTheSameNamesAlone) {
  (void)prepare_digits({source_, output_});
  (void)prepare_digits({source_, output_});  // the same again is fine
  write_bytes(output_ / "test-images-idx3-ubyte", "the real MNIST");
  EXPECT_EQ(message_of([&] {
              prepare_digits({source_, output_});
            }),
            str("'", (output_ / "test-images-idx3-ubyte").string(),
                "' already exists with other content: choose another --output, or replace it with "
                "--force"));
  (void)prepare_digits({.source = source_, .output = output_, .force = true});
  EXPECT_EQ(read_idx(output_ / "test-images-idx3-ubyte", 3).dimensions[0], 2);
}

TEST_F(Digits, RefuseAnotherFile) {
  const std::string expected = ": expected scikit-learn's sklearn/datasets/data/digits.csv.gz";
  const auto at_line = [&](int number, std::string_view why) {
    return str("'", source_.string(), "' line ", number, " ", why, expected);
  };
  EXPECT_EQ(refusal("image,label\n"), at_line(1, "is not 65 integers separated by commas"));
  EXPECT_EQ(refusal(line(1) + "1,2,3\n"), at_line(2, "is not 65 integers separated by commas"));
  EXPECT_EQ(refusal(line(1) + "0," + line(2)), at_line(2, "is not 65 integers separated by commas"));
  EXPECT_EQ(refusal("17" + line(17).substr(1)), at_line(1, "has value 17, expected 0 to 16"));
  const std::string first = line(1);
  EXPECT_EQ(refusal(first.substr(0, first.size() - 2) + "10\n"), at_line(1, "has label 10, expected 0 to 9"));
  EXPECT_NE(refusal(line(1)).find("has fewer than 6 lines"), std::string::npos);
  EXPECT_NE(refusal("").find("has fewer than 6 lines"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(output_));
}

}  // namespace
}  // namespace echelon
