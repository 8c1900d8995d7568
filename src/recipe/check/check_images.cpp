#include "base/str.h"
#include "recipe/check/contradictions.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

void check_kinds(const Recipe& recipe, Conflicts& found) {
  const bool model = takes_images(recipe.model.kind);
  if (model == gives_images(recipe.data.kind)) return;
  found.add(
      {"data.kind", "model.kind"},
      model
          ? str("data.kind is ", word_of(recipe.data.kind), ", but model.kind: ", word_of(recipe.model.kind),
                " is a model of images; set data.kind: image_folder, idx or synthetic_images")
          : str("data.kind is ", word_of(recipe.data.kind), ", but model.kind: ", word_of(recipe.model.kind),
                " is a model of tokens; set data.kind: tokens or another that gives tokens, or a "
                "model.kind of images: vit, deepvit or cnn"));
}

void check_channels(const char* key, const std::vector<double>& values, std::int64_t channels,
                    Conflicts& found) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count < 2 || count == channels) return;
  found.add({key, "model.channels"}, key, " has ", count,
            " numbers; expected one, or one for each of model.channels (", channels, ")");
}

void check_views(const Recipe& recipe, Conflicts& found) {
  const ImageOptions& image = recipe.data.image;
  if (image.resize != 0 && image.resize < recipe.model.image_size) {
    found.add({"data.image.resize", "model.image_size"}, "data.image.resize is ", image.resize,
              "; expected 0 or at least model.image_size (", recipe.model.image_size,
              "), which is cut out of it");
  }
  if (image.crop_area[0] > image.crop_area[1]) {
    found.add({"data.image.crop_area"}, "data.image.crop_area is [", shortest(image.crop_area[0]), ", ",
              shortest(image.crop_area[1]), "]; expected the smaller limit first");
  }
}

}  // namespace

void find_image_conflicts(const Recipe& recipe, Conflicts& found) {
  const DataOptions& data = recipe.data;
  check_kinds(recipe, found);
  if (!gives_images(data.kind)) return;
  if (data.path.empty() && data.kind != DataKind::kSyntheticImages) {
    found.add({"data.path", "data.kind"},
              data.kind == DataKind::kIdx
                  ? "data.path is missing; data.kind: idx reads an images file, such as MNIST's "
                    "train-images-idx3-ubyte: name it here (`./make.sh digits` makes a small one)"
                  : "data.path is missing; data.kind: image_folder reads a folder with one subfolder "
                    "for each class: name it here");
  }
  if (data.kind == DataKind::kSyntheticImages && !data.validation.path.empty()) {
    found.add({"data.validation.path", "data.kind"},
              "data.validation.path is set, but data.kind: synthetic_images reads no files; set "
              "data.validation.samples instead");
  }
  check_channels("data.mean", data.mean, recipe.model.channels, found);
  check_channels("data.std", data.std, recipe.model.channels, found);
  if (data.kind == DataKind::kImageFolder) check_views(recipe, found);
}

}  // namespace echelon::recipe
