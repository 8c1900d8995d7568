// Every case of tests/golden/recipe is a recipe that must be refused with exactly the text of its part
// "said". The recipe lies in a file CASE.yaml; the part "overrides" has overrides, one a line; any other part
// is a file beside the recipe. ECHELON_UPDATE_GOLDEN=1 writes the parts "said": read the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "recipe/load.h"
#include "recipe_support.h"
#include "support/golden_table.h"
#include "support/places.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;

struct BadRecipeCase {
  stdfs::path table;
  test::GoldenCase golden;

  friend std::ostream& operator<<(std::ostream& out, const BadRecipeCase& shown) {
    return out << shown.table.filename().string();
  }
};

std::vector<BadRecipeCase> bad_recipes() {
  std::vector<BadRecipeCase> found;
  const stdfs::path folder = stdfs::path(test::source_dir()) / "tests" / "golden" / "recipe";
  for (const stdfs::path& table : test::golden_tables(folder)) {
    for (test::GoldenCase& golden : test::read_golden(table).cases)
      found.push_back({table, std::move(golden)});
  }
  return found;
}

/// Writes the files of a case into `folder`.
void lay_out(const test::GoldenCase& golden, const stdfs::path& folder) {
  for (const auto& [part, text] : golden.parts) {
    if (part == "overrides" || part == "said") continue;
    const stdfs::path file = folder / (part.empty() ? golden.name + ".yaml" : part);
    stdfs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
}

std::vector<std::string> overrides_of(const test::GoldenCase& golden) {
  std::vector<std::string> overrides;
  const std::string* text = golden.part("overrides");
  std::istringstream lines(text == nullptr ? "" : *text);
  for (std::string line; std::getline(lines, line);) overrides.push_back(line);
  return overrides;
}

/// The message without the folder's path, so that it is the same on every machine.
std::string message_of(const test::GoldenCase& golden) {
  const test::TempDir dir;
  const stdfs::path folder = stdfs::canonical(dir.path());
  lay_out(golden, folder);
  const auto load = [&] { return load_recipe(folder / (golden.name + ".yaml"), overrides_of(golden)); };
  return test::without(test::refusal(Code::kUsage, load), folder.string() + "/") + "\n";
}

class BadRecipe : public testing::TestWithParam<BadRecipeCase> {};

TEST_P(BadRecipe, IsRefusedWithTheExpectedText) {
  const auto& [table, golden] = GetParam();
  const std::string message = message_of(golden);
  ASSERT_NE(message, "accepted\n") << golden.name << " was accepted";
  EXPECT_EQ(message, test::golden(table, golden.name, "said", message)) << golden.name << " in " << table;
}

std::string case_name(const testing::TestParamInfo<BadRecipeCase>& info) {
  std::string name = info.param.golden.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, BadRecipe, testing::ValuesIn(bad_recipes()), case_name);

TEST(BadRecipes, AreAllFound) {
  EXPECT_GE(bad_recipes().size(), 140U);
}

}  // namespace
}  // namespace echelon
