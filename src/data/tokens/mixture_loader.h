#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/loader.h"
#include "data/sample_order.h"

namespace echelon {

/// Samples of several loaders in fixed shares (data.mixture).
///
/// Weights become whole numbers n_i without a common factor. Of every n_1 + n_2 + ... samples in a row, n_i
/// come from source i, spread evenly over them. The k-th sample drawn from a source is that source's sample
/// k, so each source runs through epochs of its own and repeats none of its samples within one. Shuffled, the
/// samples of a round, or of 1,000 if it is longer, then change places among themselves. All this is computed
/// from the global sample number. An epoch has as many samples as those of all sources together.
class MixtureLoader final : public Loader {
 public:
  struct Source {
    std::unique_ptr<Loader> loader;
    std::uint64_t share = 1;  ///< in millionths or any other unit, above 0
  };

  /// `sources` is not empty; its loaders give samples of one kind. Without a seed nothing is shuffled.
  MixtureLoader(std::vector<Source> sources, std::optional<std::uint64_t> shuffle_seed);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  std::vector<Source> sources_;
  std::uint64_t round_;   ///< its length
  std::uint64_t window_;  ///< samples that change places among themselves
  SampleOrder order_;     ///< within a window
};

}  // namespace echelon
