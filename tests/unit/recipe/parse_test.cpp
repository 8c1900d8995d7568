#include "recipe/parse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "recipe/keys/keys.h"
#include "recipe_support.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

using test::parse;
using test::refusal;

const std::string kBase = test::kSynthetic;

// Processor time. Reading takes a tenth of a second, tens of times more under sanitizers; anything quadratic
// in a megabyte takes minutes.
constexpr std::clock_t kEnough = 15 * CLOCKS_PER_SEC;

TEST(ParseRecipe, KeepsDefaultsOfKeysNotGiven) {
  const LoadedRecipe loaded = parse(kBase);
  EXPECT_EQ(loaded.recipe.model.hidden_size, 768);
  EXPECT_EQ(loaded.recipe.optim.betas[1], 0.95);
  EXPECT_EQ(loaded.recipe.shard.reshard_after_forward, SwitchOrCount());
  EXPECT_EQ(loaded.recipe.precision.param, FloatType::kUnset);
  EXPECT_EQ(loaded.recipe.checkpoint.resume, Resume::kAuto);
}

TEST(ParseRecipe, GivesSgdAndAdadeltaThePyTorchDefaults) {
  const auto optim = [](const std::string& keys) {
    return parse(kBase + "optim: {" + keys + "}\n").recipe.optim;
  };
  EXPECT_EQ(optim("kind: muon").weight_decay, 0.1);
  EXPECT_EQ(optim("kind: sgd").weight_decay, 0.0);
  EXPECT_EQ(optim("kind: adadelta").weight_decay, 0.0);
  EXPECT_EQ(optim("kind: adadelta").eps, 1e-6);
  EXPECT_EQ(optim("kind: adadelta, weight_decay: 0.1, eps: 1e-8").weight_decay, 0.1);
  EXPECT_EQ(optim("kind: adadelta, weight_decay: 0.1, eps: 1e-8").eps, 1e-8);
}

TEST(ParseRecipe, ReadsEveryTypeInBlockAndFlowStyle) {
  const LoadedRecipe loaded = parse(
      "data: {kind: synthetic_tokens, shuffle: false}\n"
      "optim:\n  lr: 2.5e-4\n  betas:\n  - 0.8\n  - 0.9\n"
      "\"train\": {\"steps\": +7, device: 'cpu'}\n"
      "shard: {wrap: {policy: none}}\n");
  EXPECT_FALSE(loaded.recipe.data.shuffle);
  EXPECT_EQ(loaded.recipe.optim.lr, 2.5e-4);
  EXPECT_EQ(loaded.recipe.optim.betas, (std::array<double, 2>{0.8, 0.9}));
  EXPECT_EQ(loaded.recipe.train.steps, 7);
  EXPECT_EQ(loaded.recipe.train.device, TrainDevice::kCpu);
  EXPECT_EQ(loaded.recipe.shard.wrap.policy, WrapPolicy::kNone);
}

TEST(ParseRecipe, TakesNumbersInAnyDecimalForm) {
  for (const auto& [text, value] : std::map<std::string, double>{
           {"1", 1.0}, {".5", 0.5}, {"5.", 5.0}, {"1e-3", 1e-3}, {"1E+1", 10.0}, {"+0.25", 0.25}}) {
    EXPECT_EQ(parse(kBase + "optim: {lr: " + text + "}\n").recipe.optim.lr, value) << text;
  }
}

TEST(ParseRecipe, ReadsWindowsLineEndsLikeOthers) {
  const LoadedRecipe loaded = parse("data:\r\n  kind: synthetic_tokens\r\nrun:\r\n  name: a\r\n");
  EXPECT_EQ(loaded.recipe.run.name, "a");
  EXPECT_EQ(loaded.origins.at("run.name"), "r.yaml:4:9");
}

TEST(ParseRecipe, NamesTheOriginOfEveryKey) {
  const LoadedRecipe loaded = parse(kBase + "optim:\n  lr: 1.0e-3\n", {"train.steps=5"});
  EXPECT_EQ(loaded.origins.size(), recipe::keys().size());
  EXPECT_EQ(loaded.origins.at("optim.lr"), "r.yaml:3:7");
  EXPECT_EQ(loaded.origins.at("train.steps"), "command line");
  EXPECT_EQ(loaded.origins.at("optim.eps"), "default");
}

TEST(ParseRecipe, CountsColumnsInCharacters) {
  EXPECT_EQ(refusal("data: {path: \"\xC3\xA9\xC3\xA9\", seq_len: x}\n"),
            "r.yaml:1:29: data.seq_len: 'x' is not an integer; expected an integer from 1 to 16777216");
}

TEST(ParseRecipe, PutsTheRunFolderUnderRunsUnlessNamed) {
  EXPECT_EQ(parse(kBase + "run: {name: a-1}\n").recipe.run.dir, "runs/a-1");
  EXPECT_EQ(parse(kBase + "run: {name: a-1, dir: /scratch/x}\n").recipe.run.dir, "/scratch/x");
}

TEST(Overrides, WinOverTheFileAndLaterOnesOverEarlierOnes) {
  const LoadedRecipe loaded = parse(kBase + "train: {steps: 5}\n", {"train.steps=6", "train.steps=7"});
  EXPECT_EQ(loaded.recipe.train.steps, 7);
}

TEST(Overrides, KeepEverythingAfterTheFirstEqualsSign) {
  EXPECT_EQ(parse(kBase, {"run.dir=runs/lr=1e-3: a #b"}).recipe.run.dir, "runs/lr=1e-3: a #b");
}

TEST(Overrides, TakeListsQuotesAndBlanks) {
  const LoadedRecipe loaded =
      parse(kBase, {"optim.betas=[0.5, 0.6]", "data.tokenizer=\"\"", "run.name='q'", "train.steps= 3 "});
  EXPECT_EQ(loaded.recipe.optim.betas, (std::array<double, 2>{0.5, 0.6}));
  EXPECT_EQ(loaded.recipe.data.tokenizer, "");
  EXPECT_EQ(loaded.recipe.run.name, "q");
  EXPECT_EQ(loaded.recipe.train.steps, 3);
}

TEST(Overrides, RepairAWrongValueOnlyOnceTheFileIsRight) {
  EXPECT_MENTIONS(refusal(kBase + "train: {steps: ten}\n", {"train.steps=10"}), "'ten' is not an integer");
}

class Includes : public testing::Test {
 protected:
  LoadedRecipe load(const std::string& name) {
    return recipe::parse_recipe_text(name, files_.at(name), {}, [this](const std::filesystem::path& path) {
      const auto found = files_.find(path.string());
      if (found == files_.end()) throw Error(Code::kUsage, "no file " + path.string());
      return found->second;
    });
  }
  std::map<std::string, std::string> files_;
};

TEST_F(Includes, GiveWayToTheIncludingFileKeyByKey) {
  files_["r/a.yaml"] = "include: ../b/base.yaml\noptim: {lr: 1.0e-2}\n";
  files_["b/base.yaml"] = "include: deeper.yaml\noptim: {lr: 1.0e-3, eps: 1.0e-6}\n";
  files_["b/deeper.yaml"] = kBase + "optim: {eps: 1.0e-5, weight_decay: 0.5}\n";
  const LoadedRecipe loaded = load("r/a.yaml");
  EXPECT_EQ(loaded.recipe.optim.lr, 1e-2);
  EXPECT_EQ(loaded.recipe.optim.eps, 1e-6);
  EXPECT_EQ(loaded.recipe.optim.weight_decay, 0.5);
  EXPECT_EQ(loaded.origins.at("optim.eps"), "b/base.yaml:2:26");
  EXPECT_EQ(loaded.origins.at("optim.weight_decay"), "b/deeper.yaml:2:36");
}

TEST_F(Includes, AreReadBeforeKeysThatStandAboveThem) {
  files_["a.yaml"] = "optim: {lr: 1.0e-2}\ninclude: b.yaml\n";
  files_["b.yaml"] = kBase + "optim: {lr: 1.0e-3}\n";
  EXPECT_EQ(load("a.yaml").recipe.optim.lr, 1e-2);
}

TEST_F(Includes, MayBeEightDeep) {
  for (int i = 0; i < 8; ++i) {
    files_[std::to_string(i) + ".yaml"] = "include: " + std::to_string(i + 1) + ".yaml\n";
  }
  files_["8.yaml"] = kBase;
  EXPECT_EQ(load("0.yaml").recipe.data.kind, DataKind::kSyntheticTokens);
}

TEST_F(Includes, ThatCannotBeReadAreTheOnlyFaultReported) {
  files_["a.yaml"] = "include: gone.yaml\nmodel: {layers: 2}\n";  // data.path may stand in gone.yaml
  EXPECT_EQ(test::refusal(Code::kUsage, [&] { (void)load("a.yaml"); }),
            "a.yaml:1:10: include: no file gone.yaml; the path is relative to the file that includes it");
}

TEST(HostileText, OfManyValuesIsRefusedEarly) {
  std::string list = "model: [";
  for (int i = 0; i < 200'000; ++i) list += i % 100 == 0 ? "0,\n" : "0,";
  const std::clock_t start = std::clock();
  EXPECT_MENTIONS(refusal(list + "0]\n"), "more than 20000 values; is this a recipe?");
  EXPECT_LT(std::clock() - start, kEnough);
}

TEST(HostileText, OnOneLongLineIsRefusedBeforeItIsParsed) {
  EXPECT_EQ(refusal("a: " + std::string(1 << 20, '{')),
            "r.yaml:1:1: a line of more than 16384 bytes; is this a recipe?");
}

TEST(HostileText, OfHalfAMegabyteCostsSecondsAtMostWhateverItIs) {
  const std::vector<std::string> units{"\t\n",       "%\n",
                                       "k: 1\n",     "- ",
                                       "? ",         "a: {b: c, d: [e]}\n",
                                       "&a ",        "{\n",
                                       "[\n",        ":\n",
                                       "\"\n",       "'a",
                                       "x \n",       "#\n",
                                       "\r",         "|\n",
                                       "a:\n  b:\n", "!a\n",
                                       "---\n",      std::string(1, '\0')};
  for (const std::string& unit : units) {
    std::string text;
    while (text.size() < (1 << 19)) {
      text += unit;
      if (text.size() % 8192 < unit.size()) text += '\n';
    }
    const std::clock_t start = std::clock();
    EXPECT_NE(refusal(text), "accepted") << unit;
    EXPECT_LT(std::clock() - start, kEnough) << unit;
  }
}

TEST(HostileText, OfManyFaultsIsReportedInFiftyLines) {
  std::string text = kBase;
  for (int i = 0; i < 1000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const std::string message = refusal(text);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 50);
  EXPECT_MENTIONS(message, "... and 950 more; correct these first");
}

TEST(HostileText, OfAnyNestingIsRefusedAndNeverFollowed) {
  for (const std::size_t depth : {33u, 2000u, 100'000u}) {
    for (const std::string open : {"[", "{a: ", "? "}) {
      std::string text = "model: ";
      for (std::size_t i = 0; i < depth; ++i) text += open;
      EXPECT_NE(refusal(text), "accepted") << open << " x " << depth;
    }
  }
}

TEST(HostileText, OfLongValuesIsShownShort) {
  const std::string message = refusal(kBase + "optim: {lr: " + std::string(10'000, 'a') + "}\n");
  EXPECT_LT(message.size(), 300u);
}

TEST(HostileText, WithTerminalEscapesIsShownHarmless) {
  const std::string message = refusal(kBase + "optim:\n  \"l\\e[2Jr\": 1\n  lr: \"\\e]0;x\\a\"\n");
  EXPECT_MENTIONS(message, "'optim.l\\x1b[2Jr': no such key");
  EXPECT_FALSE(test::mentions(message, "\x1b"));
}

TEST(HostileText, CannotEndTheMessageLineOrStartAnother) {
  const std::string message = refusal(kBase + "\"x\\nr.yaml:1:1: all is well\": 1\n");
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
}

TEST(Conflicts, AreNotReportedForKeysThatWereRefused) {
  const std::string message = refusal(kBase + "schedule: {warmup_steps: 5000}\ntrain: {steps: 1e4}\n");
  EXPECT_FALSE(test::mentions(message, "warmup"));
}

}  // namespace
}  // namespace echelon
