#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/chat/chat_audit.h"
#include "data/chat/chat_encoder.h"
#include "data/prepare/prepare.h"
#include "data/prepare/records.h"
#include "text/tokenizer.h"

namespace echelon::data {

inline constexpr std::size_t kMostExamples = 10;  ///< of bad records

/// Concatenated token ids of one batch's good documents.
struct Tokenized {
  struct Part {
    std::uint64_t record = 0;
    std::size_t tokens = 0;
    std::size_t target_tokens = 0;  // of a pair; of a rejected answer
  };
  std::vector<std::int32_t> ids;
  std::vector<bool> trained;  // chats: of each id
  std::vector<Part> parts;
  std::uint64_t bytes = 0;
  ReadPlace end;
  std::uint64_t empty_records = 0;
  std::uint64_t bad_records = 0;
  BadReasons bad_reasons;
  std::vector<std::string> bad_examples;
  ChatAudit chat;

  /// Adds both answers of a record of format preference, or nothing. Throws Error(kData) for a bad one.
  void add_preference(const Record& record, const PrepareOptions& options, const ChatEncoder& chats,
                      TextEncoder& encoder);

  /// Counts a bad record. Throws Error(kData) under BadRecords::kStop.
  void add_bad_record(const std::string& where, const std::string& fault, const PrepareOptions& options);
};

/// Processes one batch, on a thread with its own encoder. Throws Error(kData): a file that cannot be read, a
/// bad record under BadRecords::kStop.
[[nodiscard]] Tokenized tokenize(const RecordBatch& batch, const PrepareOptions& options,
                                 const Tokenizer& tokenizer, TextEncoder& encoder);

/// Renders a batch's conversations and gives each its ids and its mask. Throws as tokenize() does.
[[nodiscard]] Tokenized tokenize_chats(const RecordBatch& batch, const PrepareOptions& options,
                                       const ChatEncoder& chats, TextEncoder& encoder);

}  // namespace echelon::data
