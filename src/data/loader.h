#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/options.h"

namespace echelon {

/// Token ids of one micro-batch on one rank: `rows` sequences of seq_len + 1 ids, row-major. Inputs are
/// columns [0, seq_len), targets columns [1, seq_len].
struct TokenBatch {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> ids;
};

/// Where the stream stands; the whole of it goes into a checkpoint. Independent of world size.
struct DataPosition {
  std::int64_t next_sample = 0;  ///< global sample number, counted over epochs
};

/// Samples by global number: sample g of epoch e is a seeded permutation of the file's windows, so no number
/// of ranks or micro-batch size changes which samples a step trains on. Not thread-safe.
class Loader {
 public:
  virtual ~Loader() = default;
  [[nodiscard]] virtual std::int64_t samples_per_epoch() const = 0;

  /// Sequences [first, first + rows) by global sample number; may run over the end of an epoch. Throws
  /// Error(kData) when the bytes it needs do not match their checksum: every read verifies what it uses.
  [[nodiscard]] virtual TokenBatch read(std::int64_t first, std::int64_t rows) const = 0;

  /// CRC of data identity (token file checksum, seq_len, seed, shuffle): kept in the checkpoint so that a
  /// resumed run on other data is refused.
  [[nodiscard]] virtual std::uint32_t fingerprint() const = 0;
};

/// Opens the training stream. Throws Error(kData): missing, foreign, empty, cut short or extended file,
/// damaged header, a vocabulary larger than vocab_size, another tokenizer than the one the file was made
/// with, fewer than one sample.
[[nodiscard]] std::unique_ptr<Loader> make_loader(const DataOptions& options, std::int64_t vocab_size,
                                                  std::uint64_t seed);

/// The validation stream in file order, or null when `options.validation.path` is empty.
[[nodiscard]] std::unique_ptr<Loader> make_validation_loader(const DataOptions& options,
                                                             std::int64_t vocab_size);

/// The tokenizer that belongs to `options` ("" when there is none).
[[nodiscard]] std::string tokenizer_path(const DataOptions& options);

}  // namespace echelon
