#include "app/submit/words.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "unit/submit/requests.h"

namespace echelon::submit {
namespace {

constexpr Word kAll[] = {words::kJobName, words::kName,  words::kNames, words::kNodes,  words::kConstraint,
                         words::kGres,    words::kImage, words::kPath,  words::kMounts, words::kProgram};

std::string refusal(const Word& word, const std::string& text) {
  return error_of([&] { return checked(word, "--option", text); });
}

TEST(Words, RefuseWhateverAShellOrSlurmCouldReadIntoThem) {
  const std::string hostile[] = {"",       "a b",   "a\nb",     "a\tb",  "$(id)",  "`id`", "${HOME}",
                                 "$HOME",  "a;b",   "a'b",      "a\"b",  "a\\b",   "a>b",  "a<b",
                                 "a!b",    "~",     "~root",    "-rf",   "--wrap", "a%jb", "a{b}",
                                 "{task}", "a\x01", "\xc3\xa9", "a\x7f", "a?b",    "a^b"};
  for (const Word& word : kAll) {
    for (const std::string& text : hostile) {
      EXPECT_TRUE(refusal(word, text).starts_with("2: --option is '")) << word.expected << " " << text;
      // In the midst of a text a dash is a dash.
      if (!text.empty() && text[0] != '-') {
        EXPECT_NE(refusal(word, "a" + text), "") << word.expected << text;
      }
    }
    EXPECT_NE(refusal(word, std::string("a\0b", 3)), "");
    EXPECT_NE(refusal(word, "a" + std::string(1024, 'b')), "");
  }
}

TEST(Words, LetOnlyTheSignsOfTheirKindThrough) {
  const std::pair<Word, std::string> signs[] = {
      {words::kJobName, "._-"},     {words::kName, "._@-"},        {words::kNames, "._-,"},
      {words::kNodes, "._-,[]"},    {words::kGres, "._-,:"},       {words::kPath, "._-+@=/"},
      {words::kProgram, "._-+@=/"}, {words::kMounts, "._-+@=/:,"}, {words::kConstraint, "._-,&|*()[]:"},
      {words::kImage, "._-+@:/#="}};
  for (const auto& [word, allowed] : signs) {
    for (int c = 1; c < 256; ++c) {
      const bool letter = std::isalnum(c) != 0 && c < 128;
      const std::string text = str(word.first == "/" ? "/" : "a", static_cast<char>(c));
      EXPECT_EQ(refusal(word, text).empty(), letter || allowed.find(static_cast<char>(c)) != allowed.npos)
          << word.expected << " character " << c;
    }
  }
}

TEST(Words, AreRealNamesOfClusters) {
  EXPECT_EQ(refusal(words::kNames, "gpu,gpu-spot_2"), "");
  EXPECT_EQ(refusal(words::kNodes, "p5-st-p5-[1-4,7],n2"), "");
  EXPECT_EQ(refusal(words::kConstraint, "[rack1*2&rack2*4]"), "");
  EXPECT_EQ(refusal(words::kConstraint, "(a100|h100)&nvme"), "");
  EXPECT_EQ(refusal(words::kImage, "docker://nvcr.io#nvidia/pytorch:24.01-py3"), "");
  EXPECT_EQ(refusal(words::kImage, "/fsx/images/echelon.sqsh"), "");
  EXPECT_EQ(refusal(words::kMounts, "/fsx:/fsx,/data:/data:ro"), "");
  EXPECT_EQ(refusal(words::kName, "user@lab.org"), "");
}

TEST(Words, SayWhatIsWrongAndWhatIsExpected) {
  EXPECT_EQ(refusal(words::kName, "a b"),
            "2: --option is 'a b': a job script cannot hold ' ' there; expected letters, digits, '.', '_', "
            "'@', '-'");
  EXPECT_EQ(refusal(words::kPath, "runs/x"),
            "2: --option is 'runs/x': it starts with 'r'; expected an absolute path of letters, digits and . "
            "_ - + @ = /");
}

TEST(Words, ATaskIsANumberOnlyWhenTheJobRuns) {
  EXPECT_EQ(in_quotes("/runs/a-{task}/b-{task}"),
            "\"/runs/a-${SLURM_ARRAY_TASK_ID}/b-${SLURM_ARRAY_TASK_ID}\"");
  EXPECT_EQ(with_task("{task}{task}", "12"), "1212");
  EXPECT_EQ(with_task("{task", "12"), "{task");
}

}  // namespace
}  // namespace echelon::submit
