// Every tests/golden/recipe/NN-name.yaml is a recipe that must be refused with exactly the text of
// NN-name.expected. NN-name.args holds overrides, one a line. ECHELON_WRITE_EXPECTED=1 writes the .expected
// files: read the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "recipe/load.h"
#include "support/places.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;

const stdfs::path kFolder = stdfs::path(test::source_dir()) / "tests" / "golden" / "recipe";

std::string text_of(const stdfs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> overrides_of(const stdfs::path& recipe) {
  std::vector<std::string> overrides;
  std::ifstream lines(stdfs::path(recipe).replace_extension(".args"));
  for (std::string line; std::getline(lines, line);) overrides.push_back(line);
  return overrides;
}

/// The message with the folder's own path taken out, so that it is the same on every machine.
std::string message_of(const stdfs::path& recipe) {
  try {
    (void)load_recipe(recipe, overrides_of(recipe));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    std::string message = error.what();
    const std::string prefix = kFolder.string() + "/";
    for (std::size_t at = 0; (at = message.find(prefix, at)) != std::string::npos;)
      message.erase(at, prefix.size());
    return message + "\n";
  }
  return "accepted\n";
}

std::vector<stdfs::path> cases() {
  std::vector<stdfs::path> found;
  for (const auto& entry : stdfs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class BadRecipe : public testing::TestWithParam<stdfs::path> {};

TEST_P(BadRecipe, IsRefusedWithTheExpectedText) {
  const std::string message = message_of(GetParam());
  ASSERT_NE(message, "accepted\n") << GetParam() << " was accepted";
  const stdfs::path expected = stdfs::path(GetParam()).replace_extension(".expected");
  if (std::getenv("ECHELON_WRITE_EXPECTED") != nullptr) std::ofstream(expected, std::ios::binary) << message;
  ASSERT_TRUE(stdfs::exists(expected)) << "no " << expected << "; the message is:\n" << message;
  EXPECT_EQ(message, text_of(expected));
}

std::string case_name(const testing::TestParamInfo<stdfs::path>& info) {
  std::string name = info.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Golden, BadRecipe, testing::ValuesIn(cases()), case_name);

TEST(BadRecipes, AreFiftyOrMoreAndNoExpectedTextIsOrphaned) {
  EXPECT_GE(cases().size(), 50u);
  for (const auto& entry : stdfs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".expected" && entry.path().extension() != ".args") continue;
    EXPECT_TRUE(stdfs::exists(stdfs::path(entry.path()).replace_extension(".yaml"))) << entry.path();
  }
}

}  // namespace
}  // namespace echelon
