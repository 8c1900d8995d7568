#pragma once
#include <cstdint>
#include <optional>

#include "base/not_copied.h"
#include "data/loader.h"
#include "data/sample_order.h"
#include "data/tokens/document_index.h"
#include "data/tokens/token_file.h"

namespace echelon {

/// Windows of a token file: window w is tokens [w * seq_len, w * seq_len + seq_len + 1), so neighbors share
/// one token and every token but the first is a target once an epoch. The stream is packed: windows cross
/// document borders. Tokens after the last whole window are not used.
///
/// With `separate` (data.packing: documents) the parts of different documents in a window are sequences of
/// their own, and the last token of a document predicts nothing.
class TokenLoader final : public Loader, NotCopied {
 public:
  /// `shuffle_seed`: none for file order. Throws Error(kData) when the file holds less than one window.
  TokenLoader(TokenFile file, std::int64_t seq_len, std::optional<std::uint64_t> shuffle_seed,
              bool separate = false);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  TokenFile file_;
  std::int64_t seq_len_;
  SampleOrder order_;
  std::optional<DocumentIndex> documents_;
};

/// Ids computed from (seed, sample, position), for benchmarks and tests without files. The stream has
/// structure to learn: half of the ids are the one before plus 1 (modulo vocab_size), the others favor small
/// ids.
class SyntheticLoader final : public Loader {
 public:
  /// 2 <= vocab_size <= 2^31.
  SyntheticLoader(std::int64_t seq_len, std::int64_t vocab_size, std::uint64_t seed);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  std::int64_t seq_len_;
  std::uint64_t vocab_size_;
  std::uint64_t key_;
};

}  // namespace echelon
