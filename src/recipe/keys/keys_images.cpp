#include "recipe/keys/keys_table.h"

namespace echelon::recipe {

std::vector<Key> image_keys() {
  return {
      {ECHELON_KEY(data.labels), Text::kPath, "",
       "`idx`: labels file. Empty: the one beside `path`, `...labels-idx1-ubyte` for `...images-idx3-ubyte`, "
       "with or without `.gz`."},
      {ECHELON_KEY(data.mean), NumberRange{-1e6, 1e6}, "",
       "Images: mean that is subtracted from the values, which are 0 to 1; one for all channels, or one "
       "each. Empty: 0."},
      {ECHELON_KEY(data.std), NumberRange{0.0, 1e6, true, false}, "",
       "Images: standard deviation by which the values are then divided. Empty: 1."},
      {ECHELON_KEY(data.image.crop),
       choices<Crop>({{Crop::kRandom, "any part of the image, torchvision's RandomResizedCrop"},
                      {Crop::kCenter, "its middle, as for validation"}}),
       "", "`image_folder`: how a training image is cropped."},
      {ECHELON_KEY(data.image.crop_area), kAboveZeroToOne, "",
       "`random`: smallest and largest share of the image's area that the crop covers."},
      {ECHELON_KEY(data.image.flip), kAny, "", "`image_folder`: half of the training images are mirrored."},
      {ECHELON_KEY(data.image.resize), IntegerRange{0, 65'536}, "pixels",
       "`image_folder`: shorter side to which an image is resized before the center crop. 0: "
       "`model.image_size`."},
      {ECHELON_KEY(data.image.max_pixels), IntegerRange{1, 10'000'000'000}, "pixels",
       "`image_folder`: a larger image file is a bad record."},
      {ECHELON_KEY(data.on_bad_record),
       choices<BadRecord>({{BadRecord::kStop, "the run ends with exit code 4"},
                           {BadRecord::kSkip,
                            "an image is excluded from loss and metrics, and logged; a "
                            "conversation or pair is left out"}}),
       "",
       "`image_folder`: what to do with an image file that cannot be used. `chat`, `preference`: with a "
       "conversation or pair longer than `seq_len`."},
      {ECHELON_KEY(data.max_bad_records), IntegerRange{0, 1'000'000'000}, "records",
       "`skip`: the run ends when a rank finds more bad images than this, or a file has more conversations "
       "or pairs that are too long."},
  };
}

}  // namespace echelon::recipe
