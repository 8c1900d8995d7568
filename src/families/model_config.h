#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/options/range.h"
#include "checkpoint/format/json.h"
#include "shapes/options.h"

namespace echelon::families {

/// The purpose for which a config.json is read.
enum class Purpose {
  kImport,  ///< to train and to sample with: nothing in it may be left out or be what a recipe refuses
  kExport,  ///< of a checkpoint that has its weights already
};

/// Members of a config.json.
using ConfigMembers = std::map<std::string, checkpoint::Json>;

/// A size of a model as a member of config.json.
struct StatedSize {
  const char* key;
  std::int64_t ModelOptions::*size;
  IntegerRange range;
  std::optional<std::int64_t> otherwise = {};  ///< transformers' default; nothing: it must be stated
};

/// An object with the sizes of `model`.
[[nodiscard]] checkpoint::Json stated(std::span<const StatedSize> sizes, const ModelOptions& model);

/// A config.json of Hugging Face. A member that is absent or null has the caller's default, which is that of
/// transformers. Every function throws Error(kCheckpoint), naming the file and the member, when the member is
/// of another kind or out of range.
class ModelConfig {
 public:
  /// `json` is an object; `what` names the file in errors.
  ModelConfig(checkpoint::Json json, std::string what, Purpose purpose)
      : json_(std::move(json)), what_(std::move(what)), purpose_(purpose) {}

  [[nodiscard]] bool is_import() const { return purpose_ == Purpose::kImport; }
  [[nodiscard]] bool has(const char* key) const {
    known_.insert(key);
    return json_.contains(key) && !json_[key].is_null();
  }
  /// Stated as null, which is not always the default.
  [[nodiscard]] bool is_null(const char* key) const { return json_.contains(key) && json_[key].is_null(); }
  /// Names a member of the file in errors.
  [[nodiscard]] std::string inside(const char* key) const { return what_ + ": " + key; }
  /// A size, which is never 0.
  [[nodiscard]] std::int64_t size(const char* key, const IntegerRange& range) const;
  [[nodiscard]] std::int64_t size_or(const char* key, std::int64_t otherwise,
                                     const IntegerRange& range) const;
  /// A number that may be 0; otherwise as size_or().
  [[nodiscard]] std::int64_t zero_or_size(const char* key, std::int64_t otherwise,
                                          const IntegerRange& range) const;
  void read(std::span<const StatedSize> sizes, ModelOptions& model) const;
  [[nodiscard]] double real_or(const char* key, double otherwise, const NumberRange& range) const;
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
  /// Refuses, on import, a number other than `computed`, which is also transformers' default.
  void require_number(const char* key, double computed) const;

  /// Declares `other` a second name of `key` in transformers: its value is used if `key` is absent, and two
  /// different values are refused. Call it before `key` is read.
  void take_other_name(const char* key, const char* other);

  /// Uses `value`, which the file has inside `where`, as that of `key`. Call it before `key` is read.
  void take_value(const char* key, const checkpoint::Json& value, const char* where);

  /// Refuses, on import, every member that was not queried, is no word of `neutral` and is not known to be
  /// harmless in any model: it may change what the model computes.
  void check_all_known(std::string_view neutral) const;

 private:
  checkpoint::Json json_;
  std::string what_;
  Purpose purpose_;
  mutable std::set<std::string, std::less<>> known_;  ///< keys that were asked for
};

}  // namespace echelon::families
