#pragma once
#include <filesystem>

#include "data/images/idx_file.h"
#include "data/images/image_source.h"

namespace echelon::data {

/// Images of an idx file with the labels of another one, held in memory as they are in the files.
class IdxImages final : public ImageSource {
 public:
  /// `labels`: empty to look beside `images`. Throws Error(kData): see read_idx; another number of labels
  /// than of images, a label that is not below shape.classes, images of another size or channels than one.
  IdxImages(const std::filesystem::path& images, std::filesystem::path labels, const ImageShape& shape);

  [[nodiscard]] std::int64_t size() const override { return images_.dimensions[0]; }
  [[nodiscard]] std::uint32_t fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::int64_t read(std::int64_t index, std::int64_t sample,
                                  std::span<std::uint8_t> pixels) const override;

 private:
  IdxFile images_;
  IdxFile labels_;
  std::uint32_t fingerprint_ = 0;
};

}  // namespace echelon::data
