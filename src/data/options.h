#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace echelon {

/// Recipe key `data.validation`.
struct ValidationDataOptions {
  std::string path;          ///< as data.path; empty: no validation
  std::string labels;        ///< as data.labels
  std::int64_t batches = 8;  ///< global batches per validation pass; 0: all samples
};

/// Recipe section `data.image`.
struct ImageOptions {
  std::string crop = "random";                 ///< of training images: random | centre
  std::array<double, 2> crop_area{0.08, 1.0};  ///< limits of a random crop's share of the image
  bool flip = true;                            ///< half of the training images are mirrored
  std::int64_t resize = 0;  ///< shorter side before the centre is cut out, pixels; 0: model.image_size
  std::int64_t max_pixels = 100'000'000;  ///< of one image file
};

/// Recipe section `data`.
struct DataOptions {
  std::string kind =
      "tokens";      ///< tokens: a file made by `echelon prepare` | synthetic_tokens: random ids, no file
  std::string path;  ///< token file (kind: tokens)
  std::string tokenizer;              ///< empty: tokenizer.model or tokenizer.json beside `path`, if there
  std::int64_t seq_len = 512;         ///< tokens a sample is trained on; a sample reads seq_len + 1
  bool shuffle = true;                ///< false: samples in file order
  std::int64_t workers = 1;           ///< threads of a rank that read ahead; 0: batches are read when needed
  std::int64_t prefetch_batches = 2;  ///< micro-batches of a rank read ahead
  std::string labels;                 ///< labels file (kind: idx); empty: the one beside `path`
  std::vector<double> mean;  ///< taken from each channel's values of 0 to 1; one, one a channel, or none
  std::vector<double> std;   ///< what they are divided by then
  ImageOptions image;
  std::string on_bad_record = "stop";  ///< stop | skip: an image file that cannot be used
  std::int64_t max_bad_records = 100;  ///< skip: a rank that met more of them stops all the same
  ValidationDataOptions validation;
};

}  // namespace echelon
