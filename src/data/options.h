#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/options/choice.h"
#include "base/options/patterns.h"

namespace echelon {

enum class DataKind : std::uint8_t {
  kTokens,           ///< a file made by `echelon prepare`
  kPairs,            ///< one with sources and targets
  kChat,             ///< one with conversations
  kPreference,       ///< one with pairs of conversations, of which the first is preferred
  kSyntheticTokens,  ///< random ids, no file
  kSyntheticPairs,
  kImageFolder,      ///< JPEG and PNG files, a subfolder for each class
  kIdx,              ///< the format of MNIST
  kSyntheticImages,  ///< computed, no file
};
template <>
inline constexpr std::array<std::string_view, 9> kWords<DataKind>{
    "tokens",          "pairs",        "chat", "preference",      "synthetic_tokens",
    "synthetic_pairs", "image_folder", "idx",  "synthetic_images"};

[[nodiscard]] constexpr bool is_synthetic(DataKind kind) {
  return kind == DataKind::kSyntheticTokens || kind == DataKind::kSyntheticPairs ||
         kind == DataKind::kSyntheticImages;
}
[[nodiscard]] constexpr bool gives_images(DataKind kind) {
  return kind == DataKind::kImageFolder || kind == DataKind::kIdx || kind == DataKind::kSyntheticImages;
}
[[nodiscard]] constexpr bool gives_pairs(DataKind kind) {
  return kind == DataKind::kPairs || kind == DataKind::kSyntheticPairs;
}

/// Returns whether the files hold rendered conversations.
[[nodiscard]] constexpr bool gives_chats(DataKind kind) {
  return kind == DataKind::kChat || kind == DataKind::kPreference;
}

/// The way in which documents become samples.
enum class Packing : std::uint8_t {
  kStream,     ///< windows over the concatenated documents
  kDocuments,  ///< the same windows; attention does not cross documents
  kPad,        ///< one document per sample
};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Packing>{"stream", "documents", "pad"};

/// The part that is cut out of a training image.
enum class Crop : std::uint8_t { kRandom, kCenter };
template <>
inline constexpr std::array<std::string_view, 2> kWords<Crop>{"random", "centre"};

/// The treatment of a record that cannot be used.
enum class BadRecord : std::uint8_t { kStop, kSkip };
template <>
inline constexpr std::array<std::string_view, 2> kWords<BadRecord>{"stop", "skip"};

/// Recipe key `data.validation`.
struct ValidationDataOptions {
  std::string path;                   ///< as data.path; empty: no validation
  PatternMap<std::string> sources;    ///< instead of `path`: name -> token file
  std::int64_t samples = 0;           ///< synthetic_images: how many there are; 0: no validation
  std::string labels;                 ///< as data.labels
  std::int64_t batches = 8;           ///< global batches per validation pass; 0: all samples
  std::int64_t generate = 0;          ///< pairs whose sources the model generates a text for; 0: none
  std::int64_t beams = 1;             ///< of that search; 1: greedy
  std::int64_t max_new_tokens = 128;  ///< of a generated text
};

/// Recipe section `data.image`.
struct ImageOptions {
  Crop crop = Crop::kRandom;                   ///< of training images
  std::array<double, 2> crop_area{0.08, 1.0};  ///< limits of a random crop's share of the image
  bool flip = true;                            ///< half of the training images are mirrored
  std::int64_t resize = 0;  ///< shorter side before the center is cut out, pixels; 0: model.image_size
  std::int64_t max_pixels = 100'000'000;  ///< of one image file
};

/// Recipe section `data`.
struct DataOptions {
  DataKind kind = DataKind::kTokens;
  std::string path;                    ///< token file (kind: tokens, pairs, chat, preference)
  PatternMap<double> mixture;          ///< instead of `path`: token file -> weight, a number above 0
  std::string tokenizer;               ///< empty: tokenizer.model or tokenizer.json beside `path`, if there
  std::int64_t seq_len = 512;          ///< tokens a sample is trained on; a sample reads seq_len + 1
  std::int64_t target_len = 150;       ///< kind: pairs: most tokens of a target; seq_len is of a source
  bool full_length = false;            ///< synthetic_pairs: no length varies
  Packing packing = Packing::kStream;  ///< kind: tokens
  bool shuffle = true;                 ///< false: samples in file order
  std::int64_t workers = 1;            ///< threads of a rank that read ahead; 0: batches are read when needed
  std::int64_t prefetch_batches = 2;   ///< micro-batches of a rank read ahead
  std::string labels;                  ///< labels file (kind: idx); empty: the one beside `path`
  std::vector<double> mean;  ///< taken from each channel's values of 0 to 1; one, one a channel, or none
  std::vector<double> std;   ///< what they are divided by then
  ImageOptions image;
  BadRecord on_bad_record = BadRecord::kStop;  ///< an image file, a conversation longer than seq_len
  std::int64_t max_bad_records = 100;          ///< skip: a rank that met more of them stops all the same
  ValidationDataOptions validation;
};

}  // namespace echelon
