#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/images/image_source.h"
#include "data/options.h"
#include "shapes/options.h"
#include "text/tokenizer.h"

namespace echelon {

/// Consecutive samples in host memory, either token sequences or images. Token sequences stand one after
/// another without padding.
struct SampleBatch {
  std::int64_t samples = 0;
  std::int64_t first_sample = 0;  ///< global number

  std::vector<std::int64_t> ids;      ///< what goes into a token model
  std::vector<std::int64_t> lengths;  ///< of the sequences in `ids`: tokens see those of their own only
  /// Tokens of each sample, where a sample may hold several sequences; empty: one each.
  std::vector<std::int64_t> sample_lengths;

  std::array<std::int64_t, 3> image_shape{};  ///< channels, height, width
  std::vector<float> images;                  ///< [samples, channels, height, width]

  /// Negative: not counted. Language model: the token after each of `ids`. Pairs: the target sequences one
  /// after another. Images: one class for each sample.
  std::vector<std::int64_t> targets;
  std::vector<std::int64_t> target_lengths;  ///< pairs only: of the sequences in `targets`

  /// Preferences only: sequences 2i and 2i + 1 are the chosen and the rejected answer of a pair. Of each
  /// sequence: its number in the file, and its element of Loader::reference().
  std::vector<std::int64_t> answers;
  std::vector<double> reference;
};

/// The largest size of a sample.
struct SampleSize {
  std::int64_t tokens = 0;         ///< in `ids`
  std::int64_t target_tokens = 0;  ///< in the target sequence of a pair
  std::int64_t targets = 1;        ///< predictions that count
};

/// The position in the stream, all of which is stored in a checkpoint. Independent of world size.
struct DataPosition {
  std::int64_t next_sample = 0;  ///< global sample number, counted over epochs
};

/// Samples by global number: sample g of epoch e is a seeded permutation of the file's windows, so no number
/// of ranks or micro-batch size changes which samples a step trains on. Both ways to read may run on several
/// threads.
class Loader {
 public:
  virtual ~Loader() = default;
  [[nodiscard]] std::int64_t samples_per_epoch() const { return samples_per_epoch_; }
  [[nodiscard]] const SampleSize& sample_size() const { return sample_size_; }

  /// Samples [first, first + count) by global number; may run over the end of an epoch. Throws Error(kData)
  /// when the bytes it needs do not match their checksum: every read verifies what it uses.
  [[nodiscard]] SampleBatch read(std::int64_t first, std::int64_t count) const;
  /// Adds one sample, 0 or above, to a batch of samples of its kind. `batch.samples`: how many it will have.
  /// Throws as read() does.
  virtual void append(std::int64_t sample, SampleBatch& batch) const = 0;

  /// CRC of data identity (token file checksum, seq_len, seed, shuffle): kept in the checkpoint so that a
  /// resumed run on other data is refused.
  [[nodiscard]] std::uint32_t fingerprint() const { return fingerprint_; }

  /// Preferences: for each answer of the file the log-probability of its trained tokens under the weights
  /// that the run begins with, which read() gives to batches. Zeros until they are written, which must be
  /// done while no other thread reads. Null: other data.
  [[nodiscard]] virtual std::vector<double>* reference() { return nullptr; }

 protected:
  /// Every constructor calls it, once.
  void identify(std::uint64_t samples_per_epoch, std::uint32_t fingerprint, const SampleSize& sample_size) {
    samples_per_epoch_ = static_cast<std::int64_t>(samples_per_epoch);
    fingerprint_ = fingerprint;
    sample_size_ = sample_size;
  }

 private:
  std::int64_t samples_per_epoch_ = 0;
  std::uint32_t fingerprint_ = 0;
  SampleSize sample_size_;
};

/// The input that the model accepts; other data are refused.
struct ModelInput {
  ModelInput(std::int64_t vocabulary, const data::ImageShape& shape = {})  // NOLINT: meant to be implicit
      : vocab_size(vocabulary), images(shape) {}
  ModelInput(const ModelOptions& model)  // NOLINT: meant to be implicit
      : vocab_size(model.vocab_size), images{model.channels, model.image_size, model.classes} {}
  std::int64_t vocab_size;
  data::ImageShape images;
};

/// Opens the training stream. Throws Error(kData): missing, foreign, empty, cut short or extended file,
/// damaged header, an id from vocab_size on, another tokenizer than the one the file was made
/// with, fewer than one sample, no token that predicts another; of images: see make_image_loader.
[[nodiscard]] std::unique_ptr<Loader> make_loader(const DataOptions& options, const ModelInput& input,
                                                  std::uint64_t seed);

struct ValidationSource {
  std::string name;
  std::unique_ptr<Loader> loader;
};
/// What validation measures on, in an order that never changes: the stream of options.validation.path without
/// a name, or those of its sources, or none. `seed`: that of the training stream. Throws as make_loader()
/// does.
[[nodiscard]] std::vector<ValidationSource> make_validation_sources(const DataOptions& options,
                                                                    const ModelInput& input,
                                                                    std::uint64_t seed);

/// The tokenizer that belongs to `options` ("" when there is none).
[[nodiscard]] std::string tokenizer_path(const DataOptions& options);

/// Loads the tokenizer at tokenizer_path(), with the EOS of the token file (`echelon prepare` may have taken
/// it from a model). Null when there is none. Throws Error(kData).
[[nodiscard]] std::unique_ptr<const Tokenizer> load_tokenizer(const DataOptions& options);

}  // namespace echelon
