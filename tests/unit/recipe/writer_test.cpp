#include "recipe/yaml/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "recipe/check/check.h"
#include "recipe/load.h"
#include "recipe/yaml/value.h"
#include "recipe_support.h"
#include "support/long_form.h"
#include "support/matches.h"

namespace echelon {
namespace {

using recipe::Key;
using recipe::keys;

TEST(ShortestNumber, ReadsBackToTheSameBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(std::strtod(recipe::shortest(value).c_str(), nullptr)),
              std::bit_cast<std::uint64_t>(value));
  }
}

TEST(ShortestNumber, AlwaysHasADotSoThatNoReaderTakesItForTextOrAnInteger) {
  EXPECT_EQ(recipe::shortest(1e-5), "1.0e-05");
  EXPECT_EQ(recipe::shortest(10000), "10000.0");
  EXPECT_EQ(recipe::shortest(0.1), "0.1");
  EXPECT_EQ(recipe::shortest(1.5e300), "1.5e+300");
}

/// A random value that `key` takes.
struct Randomize {
  const Key& key;
  std::mt19937_64& random;

  void operator()(bool* field) const {
    if (!std::holds_alternative<recipe::Choices>(key.rule)) *field = random() % 2 == 0;
  }
  void operator()(std::int64_t* field) const {
    const auto& range = std::get<IntegerRange>(key.rule);
    const std::int64_t width = std::min<std::int64_t>(range.high - range.low, 1'000'000);
    *field = range.low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(width));
  }
  void operator()(double* field) const {
    const auto& range = std::get<NumberRange>(key.rule);
    *field = std::uniform_real_distribution<double>(range.low, range.high)(random);
    if (random() % 2 == 0 && range.low == 0.0) *field *= 1e-9;
  }
  void operator()(std::array<double, 2>* field) const {
    (*this)(&(*field)[0]);
    (*this)(&(*field)[1]);
  }
  void operator()(std::string* field) const {
    if (const auto* choices = std::get_if<recipe::Choices>(&key.rule)) {
      *field = choices->values[random() % choices->values.size()].value;
    } else if (std::holds_alternative<std::monostate>(key.rule)) {
      static const std::vector<std::string> kTexts{
          "", "\n", "####", "Question:", " a\t", "-", "~", "\xC3\xA9"};
      *field = kTexts[random() % kTexts.size()];
    } else if (std::get<recipe::Text>(key.rule) == recipe::Text::kPath) {
      static const std::vector<std::string> kPaths{"a/b.tok",
                                                   "a: b",
                                                   "# no comment",
                                                   "yes",
                                                   "007",
                                                   "1e3",
                                                   "null",
                                                   "with 'quotes' \"both\"",
                                                   "back\\slash",
                                                   "[list]",
                                                   "{map}",
                                                   "&anchor",
                                                   "*alias",
                                                   "!tag",
                                                   "%percent",
                                                   "@at",
                                                   "`tick`",
                                                   "a #b",
                                                   " blanks ",
                                                   "",
                                                   ".",
                                                   "..",
                                                   "\xC3\xA9t\xC3\xA9",
                                                   "a=b",
                                                   "?",
                                                   "| pipe",
                                                   "> more",
                                                   ": colon",
                                                   "trailing:",
                                                   "/abs/path",
                                                   "-0x"};
      const std::string& path = kPaths[random() % (kPaths.size() - 1)];
      *field = path;
    } else if (std::get<recipe::Text>(key.rule) == recipe::Text::kTime) {
      *field = random() % 2 == 0 ? "" : "2026-03-01T11:30:0" + std::to_string(random() % 10) + "Z";
    } else {
      *field = "n" + std::to_string(random() % 1000) + "._-";
    }
  }
  void operator()(SwitchOrCount* field) const {
    *field = {random() % 2 == 0, 0};
    if (field->on && random() % 2 == 0) (*this)(&field->count);
  }
  void operator()(const recipe::ChoiceField& field) const {
    const auto& values = std::get<recipe::Choices>(key.rule).values;
    const std::string& word = values[random() % values.size()].value;
    *field.value = static_cast<std::uint8_t>(std::find(field.words.begin(), field.words.end(), word) -
                                             field.words.begin());
  }
  void operator()(std::vector<std::string>* field) const { *field = patterns(); }
  void operator()(std::vector<SchedulePhase>* field) const {
    field->clear();
    for (auto i = static_cast<std::int64_t>(random() % 8); i > 0; --i)
      field->push_back({kPhaseKinds[random() % kPhaseKinds.size()], i});
  }
  void operator()(std::vector<double>* field) const {
    field->resize(random() % 4);
    for (double& value : *field) (*this)(&value);
  }
  template <class Value>
  void operator()(PatternMap<Value>* field) const {
    field->clear();
    for (const std::string& pattern : patterns()) {
      Value value{};
      std::visit(*this, recipe::slot_of(value));
      field->emplace_back(pattern, value);
    }
  }

 private:
  [[nodiscard]] std::vector<std::string> patterns() const {
    std::vector<std::string> all{
        "*", "*norm*", "model.layers.*",     "?x", "[a-c]*", "!a", "007", "1e3", "true", "no", "-", "-a",
        ".", "null",   std::string(200, 'w')};
    if (key.names == recipe::Text::kName) all = {"piqa", "007", "1e3", "true", "no", "null", "a.b-c"};
    std::shuffle(all.begin(), all.end(), random);
    all.resize(random() % (all.size() + 1));
    return all;
  }
};

/// Sets the keys of every conflict back, until none is left.
void make_sound(Recipe& recipe) {
  for (auto found = recipe::conflicts(recipe); !found.empty(); found = recipe::conflicts(recipe)) {
    for (const std::string& path : found.front().keys) {
      const Key& key = *recipe::find_key(path);
      Recipe defaults;
      recipe::copy_value(key, defaults, recipe);
    }
    if (recipe.data.path.empty()) recipe.data.path = "images";  // its default is a conflict of its own
  }
}

/// The key's value in words that differ whenever the value does.
std::string all_values(const Recipe& recipe) {
  std::string text;
  for (const Key& key : keys()) text += key.path + "=" + recipe::written(key, recipe) + "\n";
  return text;
}

TEST(ToYaml, RoundTripsAnyRecipeExactly) {
  std::mt19937_64 random(11);
  for (int i = 0; i < (test::long_form() ? 200 : 60); ++i) {
    Recipe recipe;
    for (const Key& key : keys()) std::visit(Randomize{key, random}, key.slot(recipe));
    // Make the model and the batch agree; all else stays random.
    recipe.model = ModelOptions{.vocab_size = recipe.model.vocab_size,
                                .norm_eps = recipe.model.norm_eps,
                                .rope_theta = recipe.model.rope_theta,
                                .tie_embeddings = recipe.model.tie_embeddings,
                                .init_std = recipe.model.init_std};
    recipe.data.path = "images";
    if (i % 2 == 0) {
      recipe.model.kind = ModelKind::kCnn;
      recipe.data.kind = DataKind::kImageFolder;
    } else {
      const std::int64_t seq_len = recipe.data.seq_len;
      recipe.data = {};
      recipe.data.kind = DataKind::kSyntheticTokens;
      recipe.data.seq_len = seq_len;
    }
    recipe.data.seq_len = recipe.data.seq_len % 2048 + 1;
    recipe.train.validate_every_steps = 0;
    recipe.train.global_batch_size = recipe.train.micro_batch_size * 4;
    recipe.schedule.warmup_steps = 0;
    recipe.schedule.min_lr = std::min(recipe.schedule.min_lr, recipe.optim.lr);
    make_sound(recipe);
    if (recipe.run.dir.empty()) recipe.run.dir = "runs/x";
    const std::string yaml = to_yaml(recipe);
    SCOPED_TRACE(yaml);
    const LoadedRecipe again = test::parse(yaml);
    ASSERT_EQ(all_values(again.recipe), all_values(recipe));
    ASSERT_EQ(to_yaml(again.recipe), yaml);
  }
}

TEST(ToYaml, WritesTheLargestListsAndMapsSoThatTheyCanBeRead) {
  Recipe recipe;
  recipe.data.kind = DataKind::kSyntheticTokens;
  recipe.run.dir = "runs/x";
  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    const std::string pattern = "*" + std::string(199 - number.size(), 'a') + number;
    recipe.optim.no_decay.push_back(pattern);
    recipe.optim.lr_factors.emplace_back(pattern, i);
  }
  const LoadedRecipe again = test::parse(to_yaml(recipe));
  EXPECT_EQ(again.recipe.optim.no_decay, recipe.optim.no_decay);
  EXPECT_EQ(again.recipe.optim.lr_factors, recipe.optim.lr_factors);
}

TEST(ToYaml, PutsTheOriginBehindEachValueAsAComment) {
  const LoadedRecipe loaded = test::parse(test::kSynthetic, {"optim.lr=1e-2"});
  const std::string yaml = to_yaml(loaded.recipe, &loaded.origins);
  EXPECT_MENTIONS(yaml, "  kind: synthetic_tokens              # r.yaml:1:14\n",
                  "  lr: 0.01                            # command line\n");
  EXPECT_EQ(to_yaml(test::parse(yaml).recipe), to_yaml(loaded.recipe));
}

TEST(ToYaml, IsFlatEvenWhenTheRecipeHadABase) {
  const LoadedRecipe loaded = recipe::parse_recipe_text(
      "a.yaml", "include: b.yaml\n", {}, [](const auto&) { return std::string(test::kSynthetic); });
  EXPECT_FALSE(test::mentions(to_yaml(loaded.recipe), "include"));
}

}  // namespace
}  // namespace echelon
