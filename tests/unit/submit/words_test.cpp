#include "app/submit/words.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "unit/submit/requests.h"

namespace echelon::submit {
namespace {

constexpr Word kAll[] = {Word::kJobName, Word::kName,  Word::kNames, Word::kNodes,  Word::kConstraint,
                         Word::kGres,    Word::kImage, Word::kPath,  Word::kMounts, Word::kProgram};

std::string refusal(Word word, const std::string& text) {
  return error_of([&] { return checked(word, "--option", text); });
}

TEST(Words, RefuseWhateverAShellOrSlurmCouldReadIntoThem) {
  const std::string hostile[] = {"",       "a b",   "a\nb",     "a\tb",  "$(id)",  "`id`", "${HOME}",
                                 "$HOME",  "a;b",   "a'b",      "a\"b",  "a\\b",   "a>b",  "a<b",
                                 "a!b",    "~",     "~root",    "-rf",   "--wrap", "a%jb", "a{b}",
                                 "{task}", "a\x01", "\xc3\xa9", "a\x7f", "a?b",    "a^b"};
  for (const Word word : kAll) {
    for (const std::string& text : hostile) {
      EXPECT_TRUE(refusal(word, text).starts_with("2: --option is '"))
          << static_cast<int>(word) << " " << text;
      // In the midst of a text a dash is a dash.
      if (!text.empty() && text[0] != '-') {
        EXPECT_NE(refusal(word, "a" + text), "") << static_cast<int>(word) << text;
      }
    }
    EXPECT_NE(refusal(word, std::string("a\0b", 3)), "");
    EXPECT_NE(refusal(word, "a" + std::string(1024, 'b')), "");
  }
}

TEST(Words, LetOnlyTheSignsOfTheirKindThrough) {
  const std::pair<Word, std::string> signs[] = {
      {Word::kJobName, "._-"},     {Word::kName, "._@-"},        {Word::kNames, "._-,"},
      {Word::kNodes, "._-,[]"},    {Word::kGres, "._-,:"},       {Word::kPath, "._-+@=/"},
      {Word::kProgram, "._-+@=/"}, {Word::kMounts, "._-+@=/:,"}, {Word::kConstraint, "._-,&|*()[]:"},
      {Word::kImage, "._-+@:/#="}};
  for (const auto& [word, allowed] : signs) {
    for (int c = 1; c < 256; ++c) {
      const bool letter = std::isalnum(c) != 0 && c < 128;
      const std::string text =
          str(word == Word::kPath || word == Word::kMounts ? "/" : "a", static_cast<char>(c));
      EXPECT_EQ(refusal(word, text).empty(), letter || allowed.find(static_cast<char>(c)) != allowed.npos)
          << static_cast<int>(word) << " character " << c;
    }
  }
}

TEST(Words, AreRealNamesOfClusters) {
  EXPECT_EQ(refusal(Word::kNames, "gpu,gpu-spot_2"), "");
  EXPECT_EQ(refusal(Word::kNodes, "p5-st-p5-[1-4,7],n2"), "");
  EXPECT_EQ(refusal(Word::kConstraint, "[rack1*2&rack2*4]"), "");
  EXPECT_EQ(refusal(Word::kConstraint, "(a100|h100)&nvme"), "");
  EXPECT_EQ(refusal(Word::kImage, "docker://nvcr.io#nvidia/pytorch:24.01-py3"), "");
  EXPECT_EQ(refusal(Word::kImage, "/fsx/images/echelon.sqsh"), "");
  EXPECT_EQ(refusal(Word::kMounts, "/fsx:/fsx,/data:/data:ro"), "");
  EXPECT_EQ(refusal(Word::kName, "user@lab.org"), "");
}

TEST(Words, SayWhatIsWrongAndWhatIsExpected) {
  EXPECT_EQ(refusal(Word::kName, "a b"),
            "2: --option is 'a b': a job script cannot hold ' ' there; expected letters, digits, '.', '_', "
            "'@', '-'");
  EXPECT_EQ(refusal(Word::kPath, "runs/x"),
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
