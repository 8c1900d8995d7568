#pragma once
#include <cstdint>
#include <optional>

#include "data/loader.h"
#include "data/sample_order.h"
#include "data/tokens/token_file.h"

namespace echelon {

/// Every document is a sample of its own (data.packing: pad): its first seq_len + 1 ids, the last of which is
/// a target only. Nothing is padded.
class DocumentLoader final : public Loader {
 public:
  /// `shuffle_seed`: none for file order.
  DocumentLoader(TokenFile file, std::int64_t seq_len, std::optional<std::uint64_t> shuffle_seed);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  TokenFile file_;
  std::int64_t seq_len_;
  SampleOrder order_;
};

/// Source and target documents of a file of pairs (data.kind: pairs). A longer one is cut and keeps its last
/// id, the EOS, as transformers' truncation does.
class PairLoader final : public Loader {
 public:
  /// seq_len, target_len: most tokens of a source, of a target. `shuffle_seed`: none for file order.
  PairLoader(TokenFile file, std::int64_t seq_len, std::int64_t target_len,
             std::optional<std::uint64_t> shuffle_seed);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  std::int64_t append_document(std::uint64_t document, std::int64_t most,
                               std::vector<std::int64_t>& ids) const;

  TokenFile file_;
  std::int64_t seq_len_;
  std::int64_t target_len_;
  SampleOrder order_;
};

}  // namespace echelon
