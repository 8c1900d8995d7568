#pragma once
#include <cstdint>
#include <string>

#include "base/patterns.h"

namespace echelon {

/// Recipe key `data.validation`.
struct ValidationDataOptions {
  std::string path;          ///< token file; empty: no validation
  std::int64_t batches = 8;  ///< global batches per validation pass; 0: all samples
};

/// Recipe section `data`.
struct DataOptions {
  /// tokens: a file made by `echelon prepare` | pairs: one with sources and targets | synthetic_tokens,
  /// synthetic_pairs: random ids, no file
  std::string kind = "tokens";
  std::string path;                   ///< token file (kind: tokens, pairs)
  PatternMap mixture;                 ///< instead of `path`: token file -> weight, a number above 0
  std::string tokenizer;              ///< empty: tokenizer.model or tokenizer.json beside `path`, if there
  std::int64_t seq_len = 512;         ///< tokens a sample is trained on; a sample reads seq_len + 1
  std::int64_t target_len = 128;      ///< kind: pairs: most tokens of a target; seq_len is of a source
  std::string packing = "stream";     ///< tokens: stream | documents | pad
  bool shuffle = true;                ///< false: samples in file order
  std::int64_t workers = 1;           ///< threads of a rank that read ahead; 0: batches are read when needed
  std::int64_t prefetch_batches = 2;  ///< micro-batches of a rank read ahead
  ValidationDataOptions validation;
};

}  // namespace echelon
