// Arbitrary bytes as a recipe: refused with an Error or loaded, and what loads must write and load again
// unchanged.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "recipe/parse.h"
#include "support/golden_table.h"
#include "support/places.h"

namespace {

/// The text after a NUL byte is the included file, so that inputs can have one.
std::string included(std::string& text) {
  const std::size_t split = text.find('\0');
  if (split == std::string::npos) return "";
  std::string base = text.substr(split + 1);
  text.resize(split);
  return base;
}

}  // namespace

/// Every text of the tables of bad recipes.
std::vector<std::string> fuzz_seeds() {
  namespace test = echelon::test;
  std::set<std::string> seeds;
  const std::filesystem::path folder = std::filesystem::path(test::source_dir()) / "tests/golden/recipe";
  for (const std::filesystem::path& table : test::golden_tables(folder)) {
    for (const test::GoldenCase& golden : test::read_golden(table).cases) {
      for (const auto& [part, text] : golden.parts) seeds.insert(text);
    }
  }
  return {seeds.begin(), seeds.end()};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::string base = included(text);
  const std::string first_line = text.substr(0, text.find('\n'));
  const auto read_include = [&](const std::filesystem::path&) { return base; };
  try {
    (void)echelon::recipe::parse_recipe_text("fuzz.yaml", "data: {kind: synthetic_tokens}\n", {first_line},
                                             read_include);
  } catch (const echelon::Error&) {
  }
  try {
    const auto loaded = echelon::recipe::parse_recipe_text("fuzz.yaml", text, {}, read_include);
    const std::string yaml = echelon::to_yaml(loaded.recipe);
    const auto again = echelon::recipe::parse_recipe_text("again.yaml", yaml, {}, read_include);
    if (echelon::to_yaml(again.recipe) != yaml) std::abort();
  } catch (const echelon::Error& error) {
    if (std::string(error.what()).empty() || error.code() != echelon::Code::kUsage) std::abort();
    if (std::string(error.what()).starts_with("again.yaml")) std::abort();
  }
  return 0;
}
