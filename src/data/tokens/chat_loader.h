#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/not_copied.h"
#include "data/loader.h"
#include "data/sample_order.h"
#include "data/tokens/document_index.h"
#include "data/tokens/token_file.h"

namespace echelon {

/// Whole conversations of a token file (data.kind: chat), or whole pairs of answers (preference). Neighbors
/// in the file share a sample as long as they fit into seq_len tokens; each conversation or answer is a
/// sequence of its own. A target counts where its token is trained.
class ChatLoader final : public Loader, NotCopied {
 public:
  /// `leave_out`: at most how many conversations (pairs) of more than seq_len inputs are left out.
  /// `shuffle_seed`: none for file order. Throws Error(kData) if more of them are longer, the file does not
  /// mark trained tokens, a pair has an answer that predicts nothing, or nothing is left.
  ChatLoader(TokenFile file, std::int64_t seq_len, std::optional<std::uint64_t> shuffle_seed,
             std::int64_t leave_out);

  void append(std::int64_t sample, SampleBatch& batch) const override;
  [[nodiscard]] std::vector<double>* reference() override {
    return file_.header().holds_preferences() ? &reference_ : nullptr;
  }

  struct Sample {
    TokenFile::Range tokens;
    std::uint64_t document = 0;  ///< number of the first
  };

 private:
  TokenFile file_;
  DocumentIndex documents_;
  std::vector<Sample> samples_;
  SampleOrder order_;
  std::vector<double> reference_;
};

}  // namespace echelon
