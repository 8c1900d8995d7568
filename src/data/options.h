#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe key `data.validation`.
struct ValidationDataOptions {
  std::string path;          ///< token file; empty: no validation
  std::int64_t batches = 8;  ///< global batches per validation pass; 0: all samples
};

/// Recipe section `data`.
struct DataOptions {
  std::string kind =
      "tokens";  ///< tokens: a file made by `echelon prepare` | synthetic_tokens, synthetic_pairs: no file
  std::string path;            ///< token file (kind: tokens)
  std::string tokenizer;       ///< sentencepiece model; empty: tokenizer.model beside `path` when it is there
  std::int64_t seq_len = 512;  ///< tokens a sample is trained on; a sample reads seq_len + 1
  std::int64_t target_len = 150;      ///< longest target of a pair
  bool full_length = false;           ///< synthetic_pairs: no length varies
  bool shuffle = true;                ///< false: samples in file order
  std::int64_t workers = 1;           ///< threads of a rank that read ahead; 0: batches are read when needed
  std::int64_t prefetch_batches = 2;  ///< micro-batches of a rank read ahead
  ValidationDataOptions validation;
};

}  // namespace echelon
