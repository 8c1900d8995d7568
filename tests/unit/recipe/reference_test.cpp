#include "recipe/yaml/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "recipe/check/other_names.h"
#include "recipe/keys/keys.h"
#include "recipe/load.h"
#include "recipe/yaml/document.h"
#include "recipe/yaml/json_value.h"
#include "recipe/yaml/scalar.h"
#include "recipe/yaml/value.h"
#include "recipe/yaml/writer.h"
#include "support/matches.h"
#include "support/places.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;
using recipe::Key;
using recipe::keys;

std::string project_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(stdfs::path(test::source_dir()) / path, std::ios::binary).rdbuf();
  return text.str();
}

constexpr const char* kRegenerate = "run bin/recipe_docs docs and commit the result";

TEST(RecipeReference, IsWhatTheKeyTableSays) {
  const std::string document = project_file("docs/recipe.md");
  EXPECT_TRUE(recipe::with_reference(document) == document) << kRegenerate;
  for (const Key& key : keys()) {
    EXPECT_MENTIONS(document, "| `" + key.path + "` |") << key.path;
  }
}

TEST(RecipeReference, RefusesADocumentWithoutAPlaceForIt) {
  EXPECT_THROW((void)recipe::with_reference("# Recipes\n"), Error);
}

TEST(RecipeSchema, IsWhatTheKeyTableSays) {
  EXPECT_TRUE(project_file("docs/recipe.schema.json") == recipe::json_schema()) << kRegenerate;
}

TEST(RecipeSchema, KnowsEveryKeyWithItsDefaultAndNoOther) {
  const auto schema = nlohmann::json::parse(recipe::json_schema());
  Recipe defaults;
  std::size_t leaves = 0;
  const std::function<void(const nlohmann::json&, const std::string&)> walk = [&](const auto& node,
                                                                                  const auto& path) {
    EXPECT_FALSE(node.at("additionalProperties").template get<bool>()) << path;
    for (const auto& [name, child] : node.at("properties").items()) {
      const std::string inner = path.empty() ? name : path + "." + name;
      if (child.contains("properties")) {
        EXPECT_TRUE(recipe::is_section(inner)) << inner;
        walk(child, inner);
      } else if (inner != "include") {
        ++leaves;
        const Key* key = recipe::find_key(inner);
        ASSERT_NE(key, nullptr) << inner;
        EXPECT_EQ(child.at("default"), nlohmann::json(recipe::json_value(*key, defaults))) << inner;
      }
    }
  };
  walk(schema, "");
  EXPECT_EQ(leaves, keys().size());
}

/// "shapes/options.h" -> names of the fields of its structs of options, but for those that are such structs.
std::multiset<std::string> fields_of(const std::string& header) {
  static const std::regex kField(R"(^  (?!return|using|\w+Options )[\w:]+(?:<.+>)? (\w+)(?: = |;|\{))");
  static const std::regex kStruct(R"(^struct \w+)");
  std::multiset<std::string> names;
  std::istringstream lines(project_file("src/" + header));
  std::smatch match;
  bool of_options = false;  // and not of a phase, say, which is a value of one key
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, kStruct)) of_options = line.ends_with("Options {");
    if (of_options && std::regex_search(line, match, kField)) names.insert(match[1]);
  }
  return names;
}

TEST(KeyTable, HasEveryFieldOfTheOptionStructs) {
  std::multiset<std::string> fields;
  for (const char* module :
       {"bootstrap", "checkpoint", "data", "data/tasks", "shapes", "optim", "run", "shard", "train"}) {
    fields.merge(fields_of(std::string(module) + "/options.h"));
  }
  fields.merge(fields_of("shard/precision_options.h"));
  std::multiset<std::string> leaves;
  for (const Key& key : keys()) leaves.insert(recipe::leaf_of(key.path));
  EXPECT_EQ(leaves, fields);
}

TEST(KeyTable, NamesEveryChoiceThatItsEnumHas) {
  // What only another key may name: a type that is not set, fp16 masters or moments, a kind of a phase.
  const std::set<std::string_view> elsewhere{"unset", "fp16", "linear_decay"};
  Recipe recipe;
  for (const Key& key : keys()) {
    const recipe::Slot slot = key.slot(recipe);
    const auto* choice = std::get_if<recipe::ChoiceField>(&slot);
    if (choice == nullptr) continue;
    const auto& values = std::get<recipe::Choices>(key.rule).values;
    for (const std::string_view word : choice->words) {
      const bool named =
          std::any_of(values.begin(), values.end(), [&](const auto& value) { return value.value == word; });
      EXPECT_TRUE(named || elsewhere.contains(word)) << key.path << " " << word;
    }
    EXPECT_LE(values.size(), choice->words.size()) << key.path;
  }
}

struct Address {
  const void* operator()(auto* field) const { return field; }
  const void* operator()(const recipe::ChoiceField& field) const { return field.value; }
};

TEST(KeyTable, NamesEachFieldOnceAndNoTwoKeysShareOne) {
  Recipe recipe;
  std::set<std::string> paths;
  std::set<const void*> fields;
  for (const Key& key : keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    const void* field = std::visit(Address(), key.slot(recipe));
    EXPECT_TRUE(fields.insert(field).second) << key.path;
    EXPECT_TRUE(recipe::is_section(recipe::parent_of(key.path))) << key.path;
    EXPECT_FALSE(key.meaning.empty()) << key.path;
  }
}

TEST(KeyTable, HasDefaultsThatItsOwnRulesTake) {
  Recipe defaults;
  for (const Key& key : keys()) {
    Recipe copy;
    recipe::Faults faults;
    const recipe::Document document = recipe::parse_document(recipe::written(key, defaults), 0, faults);
    EXPECT_TRUE(recipe::assign(key, document.root, {}, copy, faults)) << key.path;
    EXPECT_EQ(recipe::written(key, copy), recipe::written(key, defaults));
    EXPECT_EQ(faults.size(), 0u) << key.path;
  }
}

TEST(OtherValues, AreOfValuesThatExistAndAreNotValuesThemselves) {
  for (const recipe::OtherValue& other : recipe::kOtherValues) {
    int keys_with_it = 0;
    for (const Key& key : keys()) {
      const auto* choices = std::get_if<recipe::Choices>(&key.rule);
      if (choices == nullptr || (!other.path.empty() && other.path != key.path)) continue;
      const std::vector<std::string> words = recipe::words_of(*choices);
      if (std::find(words.begin(), words.end(), other.value) == words.end()) continue;
      ++keys_with_it;
      EXPECT_EQ(recipe::choice_problem(key.path, *choices, std::string(other.name)),
                "is called " + std::string(other.value) + " here");
    }
    EXPECT_GT(keys_with_it, 0) << other.path << " " << other.name;
  }
}

TEST(OtherKeys, AreOfKeysThatExistAndAreNotKeysThemselves) {
  for (const recipe::OtherKey& other : recipe::kOtherKeys) {
    EXPECT_NE(recipe::find_key(other.key), nullptr) << other.key;
    EXPECT_EQ(recipe::find_key(other.path), nullptr) << other.path;
    EXPECT_EQ(recipe::meant_by(other.path), other.key);
  }
}

TEST(Suggestions, FindNearNamesInTheSectionFirstAndElsewhereNext) {
  EXPECT_EQ(recipe::meant_by("model.layer"), "model.layers");
  EXPECT_EQ(recipe::meant_by("model.learning_rate"), "optim.lr");
  EXPECT_EQ(recipe::meant_by("modle"), "model");
  EXPECT_EQ(recipe::meant_by("optimizer"), "optim");
  EXPECT_EQ(recipe::meant_by("shard.kind"),
            "");  // three sections have one: none is meant more than the others
  EXPECT_EQ(recipe::meant_by("foo.bar"), "");
}

TEST(Suggestions, DoNotGuess) {
  EXPECT_EQ(recipe::meant_by("data.r"), "") << "too short for a near miss";
  EXPECT_EQ(recipe::meant_by("model.learning_rat"), "") << "in another section only exact names count";
  EXPECT_EQ(recipe::meant_by("steps2"), "train.steps") << "no section is named";
  for (const char* path : {"data.name", "model.dim", "shard.enabled"}) EXPECT_EQ(recipe::meant_by(path), "");
}

}  // namespace
}  // namespace echelon
