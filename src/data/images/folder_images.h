#pragma once
#include <filesystem>
#include <optional>
#include <set>

#include "base/mutex.h"
#include "data/images/image_source.h"
#include "data/options.h"
#include "image/image.h"
#include "image/image_folder.h"

namespace echelon::data {

/// Images of a folder, decoded when they are read. Training images are cut out and mirrored at random,
/// others show the middle (data.image).
///
/// An image that cannot be used stops the run, or with data.on_bad_record: skip counts as read without being
/// counted in loss and accuracy (label -1). It keeps its place in the order of samples, so what the other
/// samples are does not depend on who met it; each is logged once on the rank that meets it. A file that the
/// system cannot read always stops the run. Files of other kinds than .jpg, .jpeg and .png are an error, or
/// are left out and reported.
class FolderImages final : public ImageSource {
 public:
  /// `training_seed`: none for validation. Throws Error(kData): see list_image_folder; more classes than
  /// shape.classes, channels other than 1 or 3.
  FolderImages(const std::filesystem::path& folder, const DataOptions& options, const ImageShape& shape,
               std::optional<std::uint64_t> training_seed);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(list_.files.size()); }
  [[nodiscard]] std::uint32_t fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::int64_t read(std::int64_t index, std::int64_t sample,
                                  std::span<std::uint8_t> pixels) const override;
  [[nodiscard]] const std::vector<std::string>& classes() const { return list_.classes; }

 private:
  [[nodiscard]] Image view(const std::filesystem::path& path, std::uint64_t sample) const;
  [[nodiscard]] bool skips() const { return options_.on_bad_record == BadRecord::kSkip; }
  void check_listing() const;
  void count_bad(std::int64_t index, const std::string& why) const;

  std::filesystem::path folder_;
  DataOptions options_;
  ImageShape shape_;
  std::optional<std::uint64_t> key_;  // of random choices; none: validation
  ImageFolder list_;
  std::uint32_t fingerprint_ = 0;
  mutable Mutex bad_mutex_;
  mutable std::set<std::int64_t> bad_ ECHELON_GUARDED_BY(bad_mutex_);
};

}  // namespace echelon::data
