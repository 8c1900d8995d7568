#pragma once
#include <cstdint>
#include <filesystem>

namespace echelon::data {

struct DigitsOptions {
  std::filesystem::path source;
  std::filesystem::path output;
  bool force = false;                 ///< replace output files that hold something else
  bool allow_foreign_folder = false;  ///< work in a folder of another user, who can change what is made
};

struct DigitsReport {
  std::int64_t train_images = 0;
  std::int64_t test_images = 0;
};

/// Makes MNIST-like idx files out of scikit-learn's digits (sklearn/datasets/data/digits.csv.gz, the test set
/// of the UCI "Optical Recognition of Handwritten Digits": 1,797 images of 8 x 8, values 0 to 16):
/// output/{train,test}-images-idx3-ubyte and their labels. An image becomes 24 x 24 by bilinear resampling of
/// its values times 255 / 16 and gets a border of 2 zeros, as MNIST's have one: 28 x 28. Every sixth line is
/// for testing. The bytes depend on the source alone.
///
/// Throws Error(kData): a source that is not what it should be (with the line), output files that hold
/// something else, an output folder of another user, disk full.
DigitsReport prepare_digits(const DigitsOptions& options);

}  // namespace echelon::data
