#include <gtest/gtest.h>

#include "base/str.h"
#include "support/matches.h"
#include "unit/recipe/recipe_support.h"

namespace echelon {
namespace {

using test::refusal;

const std::string kMnist =
    "model: {kind: cnn, image_size: 28, channels: 1, classes: 10}\n"
    "data:\n  kind: idx\n  path: train-images-idx3-ubyte\n";

TEST(ImageRecipe, ArrivesWhole) {
  const Recipe recipe = test::parse(kMnist +
                                    "  labels: l\n  mean: [0.1307]\n  std: [0.3081]\n"
                                    "  validation: {path: v, labels: w, batches: 0}\n")
                            .recipe;
  EXPECT_EQ(recipe.data.labels, "l");
  EXPECT_EQ(recipe.data.mean, std::vector<double>{0.1307});
  EXPECT_EQ(recipe.data.std, std::vector<double>{0.3081});
  EXPECT_EQ(recipe.data.validation.labels, "w");
  const Recipe folder = test::parse(
                            "model: {kind: vit}\n"
                            "data:\n  kind: image_folder\n  path: p\n  mean: [0.4, 0.5, 0.6]\n"
                            "  image: {crop: random, crop_area: [0.2, 0.9], flip: false, resize: 256,"
                            " max_pixels: 1000}\n"
                            "  on_bad_record: skip\n  max_bad_records: 7\n")
                            .recipe;
  EXPECT_EQ(folder.data.mean, (std::vector<double>{0.4, 0.5, 0.6}));
  EXPECT_EQ(folder.data.image.crop_area, (std::array<double, 2>{0.2, 0.9}));
  EXPECT_FALSE(folder.data.image.flip);
  EXPECT_EQ(folder.data.image.resize, 256);
  EXPECT_EQ(folder.data.image.max_pixels, 1000);
  EXPECT_EQ(folder.data.max_bad_records, 7);
}

TEST(ImageRecipe, RefusesNumbersThatAreNone) {
  EXPECT_MENTIONS(refusal(kMnist + "  mean: 0.5\n"),
                  "'0.5' is one value, not a list; expected a list of numbers");
  EXPECT_MENTIONS(refusal(kMnist + "  std: [0.5, x]\n"), "value 2, 'x', is not a number");
  EXPECT_MENTIONS(refusal(kMnist + "  std: [0.0]\n"), "value 1, '0.0', is out of range");
  EXPECT_MENTIONS(refusal(kMnist + "  mean: [[1]]\n"), "value 1 is not a number");
}

TEST(ImageRecipe, RefusesValuesForOtherChannels) {
  EXPECT_MENTIONS(refusal(kMnist + "  mean: [0.1, 0.2]\n"),
                  "data.mean has 2 numbers; expected one, or one for each of model.channels (1)");
}

TEST(ImageRecipe, RefusesDataOfAnotherKindThanTheModels) {
  EXPECT_MENTIONS(refusal("data: {kind: idx, path: x}\n"),
                  "data.kind is idx, but model.kind: llama is a model of tokens");
  EXPECT_MENTIONS(
      refusal("model: {kind: cnn, image_size: 28, channels: 1}\ndata: {kind: synthetic_tokens}\n"),
      "data.kind is synthetic_tokens, but model.kind: cnn is a model of images");
}

TEST(ImageRecipe, RefusesWhatItsKindOfDataDoesNotUse) {
  EXPECT_MENTIONS(refusal(kMnist + "  image: {flip: false}\n"), "data.kind: idx does not use");
  EXPECT_MENTIONS(refusal(kMnist + "  max_bad_records: 5\n"), "data.on_bad_record: stop does not use");
  EXPECT_MENTIONS(refusal("model: {kind: vit}\ndata:\n  kind: image_folder\n  path: p\n"
                          "  image: {crop: centre, crop_area: [0.5, 1.0]}\n"),
                  "data.image.crop: centre does not use");
  EXPECT_MENTIONS(refusal("model: {kind: vit}\ndata: {kind: synthetic_images, validation: {path: x}}\n"),
                  "data.kind: synthetic_images reads no files; set data.validation.samples instead");
  EXPECT_MENTIONS(refusal(kMnist + "  validation: {samples: 5}\n"), "data.kind: idx does not use");
  for (const char* key : {"data.seq_len=64", "data.tokenizer=t.json"})
    EXPECT_MENTIONS(refusal(kMnist, {key}), "which data.kind: idx does not use") << key;
}

TEST(ImageRecipe, RefusesSizesThatItsModelDoesNotHave) {
  for (const char* key :
       {"layers=2", "hidden_size=64", "heads=4", "intermediate_size=128", "vocab_size=100", "norm_eps=0.1"})
    EXPECT_MENTIONS(refusal(kMnist, {str("model.", key)}), "which model.kind: cnn does not use") << key;
  const std::string vit = "model: {kind: vit}\ndata: {kind: synthetic_images}\n";
  EXPECT_MENTIONS(refusal(vit, {"model.vocab_size=100"}), "which model.kind: vit does not use");
  EXPECT_EQ(refusal(vit, {"model.layers=2", "model.norm_eps=0.1"}), "accepted");
}

TEST(ImageRecipe, ValidatesOnComputedImagesWithoutAFile) {
  const std::string every =
      "model: {kind: vit}\ntrain: {validate_every_steps: 2}\ndata: {kind: synthetic_images";
  EXPECT_EQ(refusal(every + ", validation: {samples: 100}}\n"), "accepted");
  EXPECT_MENTIONS(refusal(every + "}\n"),
                  "data.validation.samples is 0; train.validate_every_steps is 2: set the "
                  "number of images to generate for validation");
}

TEST(ImageRecipe, RefusesCropsThatDoNotFit) {
  const std::string folder = "model: {kind: vit}\ndata:\n  kind: image_folder\n  path: p\n";
  EXPECT_MENTIONS(refusal(folder + "  image: {resize: 200}\n"),
                  "expected 0 or at least model.image_size (224)");
  EXPECT_MENTIONS(refusal(folder + "  image: {crop_area: [0.9, 0.5]}\n"), "expected the smaller limit first");
  EXPECT_EQ(refusal(folder + "  image: {resize: 224}\n"), "accepted");
}

TEST(ImageRecipe, NeedsAPath) {
  EXPECT_MENTIONS(refusal("model: {kind: vit}\ndata: {kind: image_folder}\n"), "a folder with one subfolder");
  EXPECT_MENTIONS(refusal("model: {kind: vit}\ndata: {kind: idx}\n"), "./make.sh digits");
}

}  // namespace
}  // namespace echelon
