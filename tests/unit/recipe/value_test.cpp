#include "recipe/yaml/value.h"

#include <gtest/gtest.h>

#include "recipe/yaml/json_value.h"
#include "recipe/yaml/writer.h"
#include "recipe_support.h"
#include "support/matches.h"

namespace echelon {
namespace {

using test::parse;
using test::refusal;

const std::string kBase = test::kSynthetic;

/// Everything reported about `text` below the first line of a recipe, without "r.yaml:".
std::string faults_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return test::without(refusal(kBase + text, overrides), "r.yaml:");
}

std::string written(const std::string& path, const LoadedRecipe& loaded) {
  return recipe::written(*recipe::find_key(path), loaded.recipe);
}

TEST(Tasks, AreMapsOfNames) {
  const auto loaded = parse(kBase, {"evaluation.tasks={piqa: data/piqa.jsonl}", "data.tokenizer=t.json",
                                    "evaluation.until={piqa: \"a\\nb\"}"});
  EXPECT_EQ(loaded.recipe.evaluation.tasks, (PatternMap<std::string>{{"piqa", "data/piqa.jsonl"}}));
  EXPECT_EQ(loaded.recipe.evaluation.until, (PatternMap<std::string>{{"piqa", "a\nb"}}));
  EXPECT_MENTIONS(faults_of("evaluation: {tasks: {pi/qa: a}}\n"),
                  "'pi/qa' has a character that is not allowed");
  EXPECT_MENTIONS(faults_of("evaluation: {tasks: a.jsonl}\n"),
                  "expected a map of names to files, such as {NAME: FILE}");
}

TEST(Lists, AreReadInBlockAndFlowStyleInTheOrderWritten) {
  const std::vector<std::string> expected{"model.layers.*", "*norm?", "[ab].c", "3"};
  const std::string flow = "optim: {no_decay: [model.layers.*, \"*norm?\", '[ab].c', 3]}\n";
  const std::string block =
      "optim:\n  no_decay:\n  - model.layers.*\n  - \"*norm?\"\n  - \"[ab].c\"\n  - 3\n";
  const std::string lines = "optim:\n  no_decay: [model.layers.*,\n    \"*norm?\",\n    \"[ab].c\", 3]\n";
  for (const std::string& text : {flow, block, lines}) {
    EXPECT_EQ(parse(kBase + text).recipe.optim.no_decay, expected) << text;
  }
}

TEST(Lists, OfALaterLayerReplaceThoseBefore) {
  const auto base = [](const auto&) { return kBase + "optim: {no_decay: [a, b]}\n"; };
  const auto load = [&](const std::string& text, const std::vector<std::string>& overrides) {
    return recipe::parse_recipe_text("r.yaml", "include: b.yaml\n" + text, overrides, base);
  };
  EXPECT_EQ(written("optim.no_decay", load("", {})), "[a, b]");
  EXPECT_EQ(written("optim.no_decay", load("optim: {no_decay: [c]}\n", {})), "[c]");
  EXPECT_EQ(written("optim.no_decay", load("optim: {no_decay: [c]}\n", {"optim.no_decay=[]"})), "[]");
}

TEST(Lists, AreSetOnTheCommandLineInFlowStyle) {
  const LoadedRecipe loaded =
      parse(kBase, {"shard.wrap.policy=modules", "shard.wrap.modules=[\"model.layers.*\", lm_head]"});
  EXPECT_EQ(loaded.recipe.shard.wrap.modules, (std::vector<std::string>{"model.layers.*", "lm_head"}));
  EXPECT_EQ(loaded.origins.at("shard.wrap.modules"), "command line");
}

TEST(Lists, TakeThousandPatternsOfTwoHundredBytesAndNotOneMore) {
  std::string text = "optim:\n  no_decay:\n";
  for (int i = 0; i < 1000; ++i) text += "  - a" + std::to_string(i) + "\n";
  EXPECT_EQ(faults_of(text), "accepted");
  EXPECT_EQ(faults_of(text + "  - b\n"), "4:3: optim.no_decay: 1001 entries; at most 1000 are accepted");
  EXPECT_EQ(faults_of("optim: {no_decay: [" + std::string(200, 'a') + "]}\n"), "accepted");
}

TEST(Maps, AreReadInBlockAndFlowStyleInTheOrderWritten) {
  const PatternMap<FloatType> expected{{"*norm*", FloatType::kFp32}, {"lm_head", FloatType::kBf16}};
  for (const std::string text : {"precision: {overrides: {\"*norm*\": fp32, lm_head: bf16}}\n",
                                 "precision:\n  overrides:\n    '*norm*': fp32\n    lm_head: \"bf16\"\n"}) {
    EXPECT_EQ(parse(kBase + text).recipe.precision.overrides, expected) << text;
  }
}

TEST(Maps, HoldNumbersAndSwitchesTheWayRecipesWriteThem) {
  const LoadedRecipe loaded = parse(
      kBase +
      "optim: {lr_factors: {\"*.bias\": 2, lm_head: 1e-1}}\nshard: {reshard_overrides: {a.b: false}}\n");
  EXPECT_EQ(loaded.recipe.optim.lr_factors, (PatternMap<double>{{"*.bias", 2.0}, {"lm_head", 0.1}}));
  EXPECT_EQ(loaded.recipe.shard.reshard_overrides, (PatternMap<bool>{{"a.b", false}}));
  EXPECT_EQ(written("optim.lr_factors", loaded), "{\"*.bias\": 2.0, lm_head: 0.1}");
}

TEST(Maps, HoldFilesWhereTheirNamesArePaths) {
  const LoadedRecipe loaded = parse("data: {mixture: {data/a b/train.tok: 2, ../web.tok: 0.5}}\n");
  EXPECT_EQ(loaded.recipe.data.mixture,
            (PatternMap<double>{{"data/a b/train.tok", 2.0}, {"../web.tok", 0.5}}));
  const std::string message = refusal("data:\n  mixture:\n    $HOME/a.tok: 1\n    b.tok: 0\n");
  EXPECT_MENTIONS(message, "r.yaml:3:5: data.mixture: '$HOME/a.tok' has a '~' or '$'",
                  "r.yaml:4:12: data.mixture: 'b.tok': '0' is out of range",
                  "expected a map of files, such as {data/train.tok: 0.5}, each value a number");
}

TEST(Maps, OfALaterLayerReplaceThoseBefore) {
  const auto base = [](const auto&) { return kBase + "optim: {lr_factors: {a: 1, b: 2}}\n"; };
  const LoadedRecipe loaded =
      recipe::parse_recipe_text("r.yaml", "include: b.yaml\noptim: {lr_factors: {c: 3}}\n", {}, base);
  EXPECT_EQ(written("optim.lr_factors", loaded), "{c: 3.0}");
}

TEST(Maps, AreSetOnTheCommandLineInFlowStyle) {
  const LoadedRecipe loaded = parse(kBase, {"precision.overrides={\"*norm*\": fp32}"});
  EXPECT_EQ(loaded.recipe.precision.overrides, (PatternMap<FloatType>{{"*norm*", FloatType::kFp32}}));
}

TEST(Patterns, AreTextsWithoutBlanksAndTheirValuesSingle) {
  EXPECT_EQ(faults_of("optim: {no_decay: [\"a b\"]}\n"),
            "2:20: optim.no_decay: 'a b' has a blank that a pattern cannot contain; write each pattern as a "
            "separate entry; expected a list of patterns, such as [\"model.layers.*\", lm_head]");
  const std::string expected =
      "; expected a map of patterns, such as {\"*norm*\": fp32}, each value one of: fp32, bf16, fp16";
  EXPECT_EQ(faults_of("precision:\n  overrides:\n    b: [fp32]\n    ? [e]\n    : fp32\n"),
            "4:8: precision.overrides: the value of 'b' is a list or map" + expected +
                "\n5:7: precision.overrides: a pattern is a list or map" + expected);
  EXPECT_MENTIONS(faults_of("optim: {lr_factors: {a: 0x1}}\n"), "is not decimal");
}

TEST(SwitchOrCount, TakesAndWritesTrueFalseAndIntegersFromTwo) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, SwitchOrCount>>{
           {"true", {true, 0}}, {"false", {false, 0}}, {"2", {true, 2}}, {"8", {true, 8}}}) {
    const LoadedRecipe loaded = parse(kBase + "shard: {reshard_after_forward: " + text + "}\n");
    EXPECT_EQ(loaded.recipe.shard.reshard_after_forward, value);
    EXPECT_EQ(written("shard.reshard_after_forward", loaded), text);
  }
  for (const auto& [text, problem] : std::vector<std::pair<std::string, std::string>>{
           {"1", "must be written true"},
           {"0", "must be written false"},
           {"-1", "is out of range"},
           {"yes", "must be written true"},
           {"2.5", "is neither true nor false nor an integer"},
           {"\"true\"", "is in quotes, which makes it text; remove the quotes"}}) {
    const std::string message = faults_of("shard: {reshard_after_forward: " + text + "}\n");
    EXPECT_MENTIONS(message, problem + "; expected true, false or an integer from 2 to 1000000");
  }
}

TEST(Times, AreTakenAsAwsWritesThemAndNotOtherwise) {
  const auto text = [](const std::string& time) { return "cluster: {capacity_block_end: " + time + "}\n"; };
  for (const char* time : {"2026-03-01T11:30:00Z", "2026-03-01T11:30:00.000Z", "2026-03-01T11:30:00+00:00"}) {
    EXPECT_EQ(parse(kBase + text(time)).recipe.cluster.capacity_block_end, time);
    EXPECT_EQ(parse(kBase + text("\"" + std::string(time) + "\"")).recipe.cluster.capacity_block_end, time);
  }
  EXPECT_EQ(parse(kBase + text("\"\"")).recipe.cluster.capacity_block_end, "");
  EXPECT_EQ(faults_of(text("2026-03-01")),
            "2:31: cluster.capacity_block_end: '2026-03-01' is not a time; expected a time in UTC, such as "
            "2026-03-01T11:30:00Z");
}

TEST(Phases, NameAKindAndExceptTheLastTheirSteps) {
  const auto sequence = [](const std::string& phases) {
    return faults_of("train: {steps: 30}\nschedule: {kind: sequence, sequence: [" + phases + "]}\n");
  };
  EXPECT_EQ(sequence("linear_warmup 10, constant 10, constant 5, cosine"), "accepted");
  EXPECT_EQ(sequence("linear_warmup 10, linear_decay 10, step 10"), "accepted");
  EXPECT_EQ(sequence("cosine"), "accepted");
  for (const auto& [phases, problem] : std::vector<std::pair<std::string, std::string>>{
           {"constant +5, cosine", "'constant +5' does not end in a number of steps, written in digits"},
           {"constant 05, cosine", "'constant 05' does not end in a number of steps, written in digits"},
           {"\"constant 5 \", cosine", "'constant 5 ' does not end in a number of steps"},
           {"\"\"", "'' does not start with one of"}}) {
    EXPECT_MENTIONS(sequence(phases), problem);
  }
}

TEST(JsonValue, HasTheTypesOfJson) {
  const LoadedRecipe loaded =
      parse(kBase, {"optim.lr_factors={b: 2, a: 0.5}", "shard.reshard_overrides={a: true}",
                    "precision.overrides={a: bf16}", "optim.no_decay=[x]", "shard.reshard_after_forward=4"});
  const auto json = [&](const char* path) {
    return recipe::json_value(*recipe::find_key(path), loaded.recipe).dump();
  };
  EXPECT_EQ(json("optim.lr_factors"), R"({"b":2.0,"a":0.5})");
  EXPECT_EQ(json("shard.reshard_overrides"), R"({"a":true})");
  EXPECT_EQ(json("precision.overrides"), R"({"a":"bf16"})");
  EXPECT_EQ(json("optim.no_decay"), R"(["x"])");
  EXPECT_EQ(json("shard.reshard_after_forward"), "4");
  EXPECT_EQ(json("optim.nesterov"), "false");
}

}  // namespace
}  // namespace echelon
