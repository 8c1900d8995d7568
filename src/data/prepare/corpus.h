#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/chat/chat_encoder.h"
#include "data/prepare/partial_output.h"
#include "data/prepare/prepare.h"
#include "data/prepare/sources.h"
#include "text/tokenizer.h"

namespace echelon::data {

struct TextSample {
  std::vector<std::string> lines;
  std::uint64_t bad_records = 0;
  std::string first_bad;  ///< where and why

  void add(TextSample more);
};

/// A sample of about options.train_bytes of the corpus' text: lines picked by a hash of (seed, record, line),
/// long ones cut. Throws Error(kData) as tokenize_corpus does.
[[nodiscard]] TextSample sample_lines(const std::vector<SourceFile>& files, const PrepareOptions& options,
                                      const ProgressCallback& progress);

/// A tokenizer of options.train_vocab_size pieces, trained on what sample_lines() gave. Throws Error(kData).
[[nodiscard]] std::string train_on_sample(const TextSample& sample, const PrepareOptions& options,
                                          const ProgressCallback& progress);

/// Throws Error(kData) for more bad records than options.max_bad_records. `examples`: the first of them.
void require_few_bad_records(const PrepareOptions& options, std::uint64_t count,
                             const std::vector<std::string>& examples);

/// Tokenizes every record with BOS in front (when the tokenizer has one) and EOS behind, and publishes
/// options.output/train.tok and, with a validation fraction, valid.tok. A record goes to one of them by a
/// hash of (seed, its number); when that leaves one side empty, the record nearest to the border of the hash
/// changes sides; a single record is cut. `before_publishing` runs when all is written but nothing visible
/// yet. Of a pair, source and target become two documents, one behind the other. A conversation becomes the
/// tokens of its text, without BOS and EOS of their own; one without a target is left out. Throws
/// Error(kData): no text, a bad record under BadRecords::kStop or more of them than options.max_bad_records,
/// disk full, a tokenizer without EOS, ChatAudit::check.
/// Goes on from the state in `partial`, and saves it there. `chats`: format chat, else null. Fills what the
/// report tells about records and files of the output.
[[nodiscard]] PrepareReport tokenize_corpus(const std::vector<SourceFile>& files,
                                            const PrepareOptions& options, const Tokenizer& tokenizer,
                                            const ChatEncoder* chats, PartialOutput& partial,
                                            const ProgressCallback& progress,
                                            const std::function<void()>& before_publishing);

}  // namespace echelon::data
