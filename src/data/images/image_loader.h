#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "data/images/image_source.h"
#include "data/loader.h"
#include "data/sample_order.h"

namespace echelon {

/// Batches from an image source, in a shuffled order or the source's, with values from 0 to 1, minus the
/// mean and divided by the standard deviation of their channel. An unusable image is a row of zeros with an
/// ignored target.
class ImageLoader final : public Loader {
 public:
  /// `shuffle_seed`: none for the source's order. data.mean and data.std have no, one, or shape.channels
  /// values.
  ImageLoader(std::unique_ptr<data::ImageSource> source, const data::ImageShape& shape,
              const DataOptions& options, std::optional<std::uint64_t> shuffle_seed);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  std::unique_ptr<data::ImageSource> source_;
  data::ImageShape shape_;
  SampleOrder order_;
  std::vector<float> values_;  ///< [channels, 256]: what each 8-bit value becomes
};

/// The training stream of data.kind image_folder, idx or synthetic_images, or the samples of data.validation
/// in an order of their own. Throws Error(kData): see FolderImages, IdxImages; also when a validation
/// folder's classes are not those of data.path.
[[nodiscard]] std::unique_ptr<Loader> make_image_loader(const DataOptions& options,
                                                        const data::ImageShape& shape, std::uint64_t seed,
                                                        bool validation);

}  // namespace echelon
