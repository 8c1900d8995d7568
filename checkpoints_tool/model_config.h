#pragma once
#include <cstdint>
#include <string>

#include "checkpoint/json.h"

namespace echelon::tool {

/// No size of a model is larger: products of two fit 64 bits.
inline constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 31;
inline constexpr std::uint64_t kMaxLayers = 10'000;

/// A config.json of Hugging Face. A member that is absent or null has the default that the caller names,
/// which is that of transformers. Every function throws Error(kCheckpoint), naming the file and the member,
/// when it is of another kind or out of range.
class ModelConfig {
 public:
  /// Both outlive this. `json` is an object; `what` names the file in errors.
  ModelConfig(const checkpoint::Json& json, const std::string& what) : json_(json), what_(what) {}

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  /// A size from 1 to `max`.
  [[nodiscard]] std::int64_t size(const char* key, std::uint64_t max = kMaxSize) const;
  [[nodiscard]] std::int64_t size_or(const char* key, std::int64_t otherwise,
                                     std::uint64_t max = kMaxSize) const;
  [[nodiscard]] double real_or(const char* key, double otherwise) const;
  [[nodiscard]] bool flag_or(const char* key, bool otherwise) const;
  [[nodiscard]] std::string text_or(const char* key, const char* otherwise) const;
  [[nodiscard]] const checkpoint::Json& operator[](const char* key) const { return json_[key]; }

  [[noreturn]] void fail(const std::string& problem) const;
  /// Refuses: the trainer's model computes something else.
  [[noreturn]] void differs(const std::string& what) const;
  /// Refuses a text other than `computed`, the only one that the trainer's model computes.
  void require_text(const char* key, const char* otherwise, const char* computed) const;
  /// Refuses a flag other than `computed`, which is also transformers' default.
  void require_flag(const char* key, bool computed) const;

 private:
  const checkpoint::Json& json_;
  const std::string& what_;
};

}  // namespace echelon::tool
