#include "data/images/image_loader.h"

#include <algorithm>
#include <utility>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "data/data_identity.h"
#include "data/images/folder_images.h"
#include "data/images/idx_images.h"
#include "data/images/synthetic_images.h"

namespace echelon {
namespace {

constexpr std::size_t kLevels = 256;

/// Seed of the order of validation images. Files lie sorted by class, so in their order the first batches
/// would be of one class; in a constant one each validation measures the same fair sample.
constexpr std::uint64_t kValidationOrder = 0;

double of_channel(const std::vector<double>& values, std::size_t channel, double otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values.front() : values.at(channel);
}

/// As torchvision's to_tensor and normalize compute it in fp32.
std::vector<float> value_table(std::int64_t channels, const DataOptions& options) {
  std::vector<float> table;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const auto mean = static_cast<float>(of_channel(options.mean, c, 0.0));
    const auto std = static_cast<float>(of_channel(options.std, c, 1.0));
    for (std::size_t level = 0; level < kLevels; ++level)
      table.push_back((static_cast<float>(level) / 255.0F - mean) / std);
  }
  return table;
}

using Seed = std::optional<std::uint64_t>;

std::uint32_t identity(std::uint32_t source, const std::vector<float>& values, Seed seed) {
  return crc32c(std::as_bytes(std::span(values)),
                data_identity(4, source, seed.has_value(), seed.value_or(0)));
}

void check_same_classes(const DataOptions& options, const data::FolderImages& validation) {
  const std::vector<std::string> training = data::list_image_folder(options.path).classes;
  if (training == validation.classes()) return;
  const auto [here, there] = std::mismatch(training.begin(), training.end(), validation.classes().begin(),
                                           validation.classes().end());
  throw Error(Code::kData, "image folders '", options.path, "' and '", options.validation.path,
              "' have different classes, so their labels do not correspond: the first that differs is '",
              here == training.end() ? "(none)" : printable(*here), "' and '",
              there == validation.classes().end() ? "(none)" : printable(*there), "'");
}

}  // namespace

ImageLoader::ImageLoader(std::unique_ptr<data::ImageSource> source, const data::ImageShape& shape,
                         const DataOptions& options, Seed shuffle_seed)
    : source_(std::move(source)),
      shape_(shape),
      order_(static_cast<std::uint64_t>(source_->size()), shuffle_seed),
      values_(value_table(shape.channels, options)) {
  identify(order_.size(), identity(source_->fingerprint(), values_, shuffle_seed), {});
}

void ImageLoader::append(std::int64_t sample, SampleBatch& batch) const {
  batch.image_shape = {shape_.channels, shape_.size, shape_.size};
  const auto numel = static_cast<std::size_t>(shape_.numel());
  const std::size_t plane = numel / static_cast<std::size_t>(shape_.channels);
  const std::size_t before = batch.images.size();
  batch.images.reserve(numel * static_cast<std::size_t>(batch.samples));
  batch.images.resize(before + numel);  // zeros if the image cannot be used
  const std::uint64_t index = order_.at(static_cast<std::uint64_t>(sample));
  std::vector<std::uint8_t> pixels(numel);
  const std::int64_t label = source_->read(static_cast<std::int64_t>(index), sample, pixels);
  batch.targets.push_back(label);
  if (label < 0) return;
  float* to = batch.images.data() + before;
  for (std::size_t begin = 0; begin < numel; begin += plane) {
    const float* values = values_.data() + begin / plane * kLevels;
    for (std::size_t i = begin; i < begin + plane; ++i) to[i] = values[pixels[i]];
  }
}

std::unique_ptr<Loader> make_image_loader(const DataOptions& options, const data::ImageShape& shape,
                                          std::uint64_t seed, bool validation) {
  const std::string& path = validation ? options.validation.path : options.path;
  const bool shuffles = validation ? options.kind != DataKind::kSyntheticImages : options.shuffle;
  std::unique_ptr<data::ImageSource> source;
  if (options.kind == DataKind::kSyntheticImages) {
    source =
        std::make_unique<data::SyntheticImages>(shape, seed, validation ? options.validation.samples : 0);
  } else if (options.kind == DataKind::kIdx) {
    const std::string& labels = validation ? options.validation.labels : options.labels;
    source = std::make_unique<data::IdxImages>(path, labels, shape);
  } else {
    auto folder = std::make_unique<data::FolderImages>(path, options, shape, validation ? Seed() : seed);
    if (validation) check_same_classes(options, *folder);
    source = std::move(folder);
  }
  return std::make_unique<ImageLoader>(std::move(source), shape, options,
                                       shuffles ? Seed(validation ? kValidationOrder : seed) : std::nullopt);
}

}  // namespace echelon
