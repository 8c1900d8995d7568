#include <gtest/gtest.h>

#include <map>

#include "recipe/model_presets.h"
#include "shapes/shapes.h"

namespace echelon {
namespace {

// Counted by transformers 4.57 on configurations of the model cards; presets_oracle.py repeats that.
TEST(ModelPresets, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, std::int64_t> published{
      {"llama_1b", 1'235'814'400},   {"llama_3b", 3'212'749'824},     {"llama_7b", 6'738'415'616},
      {"llama_8b", 8'030'261'248},   {"llama_13b", 13'015'864'320},   {"llama_70b", 70'553'706'496},
      {"gpt2", 124'439'808},         {"gpt2_medium", 354'823'168},    {"gpt2_large", 774'030'080},
      {"gpt2_xl", 1'557'611'200},    {"t5_small", 60'506'624},        {"t5_base", 222'903'552},
      {"t5_large", 737'668'096},     {"t5_3b", 2'851'598'336},        {"t5_11b", 11'307'321'344},
      {"t5_v1_1_small", 76'961'152}, {"t5_v1_1_base", 247'577'856},   {"t5_v1_1_large", 783'150'080},
      {"t5_v1_1_xl", 2'849'757'184}, {"t5_v1_1_xxl", 11'135'332'352}, {"vit_base", 86'567'656},
      {"vit_large", 304'326'632},    {"mnist_cnn", 1'199'882},
  };
  for (const auto& [name, parameters] : published) {
    const recipe::ModelPreset* preset = recipe::find_model_preset(name);
    ASSERT_NE(preset, nullptr) << name;
    EXPECT_EQ(parameter_count(preset->model), parameters) << name;
  }
}

}  // namespace
}  // namespace echelon
