#include <gtest/gtest.h>

#include "base/str.h"
#include "data/tasks/scored_sequences.h"
#include "data/tasks/task.h"
#include "support/matches.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using testing::message_of;
using Ids = std::vector<std::int32_t>;

/// A token for each byte, but one (256) for " a" and one (257) for "xy". 300 is BOS, if there is one.
class Bytes final : public Tokenizer {
 public:
  explicit Bytes(bool begins = true) { set_facts({.vocab_size = 301, .bos_id = begins ? 300 : -1}); }
  class Encoder final : public TextEncoder {
    void encode(std::string_view text, Ids& ids) override {
      for (std::size_t i = 0; i < text.size(); ++i) {
        const auto pair = text.substr(i, 2);
        const bool joined = pair == " a" || pair == "xy";
        ids.push_back(!joined ? static_cast<unsigned char>(text[i]) : pair == " a" ? 256 : 257);
        if (joined) ++i;
      }
    }
  };
  std::unique_ptr<TextEncoder> make_encoder() const override { return std::make_unique<Encoder>(); }
  std::string decode(std::span<const std::int32_t>) const override { return ""; }
  std::string name_of(std::int32_t) const override { return ""; }
};

constexpr ModelLimits kLimits{.positions = 12, .vocab_size = 301};

Task choices(const std::string& context, const std::vector<std::string>& texts) {
  return {.name = "t", .items = {{.context = context, .choices = texts, .place = "t.jsonl:1"}}};
}

std::vector<ScoredSequence> sequences(const std::string& context, const std::vector<std::string>& texts) {
  return scored_sequences(choices(context, texts), Bytes(), kLimits);
}

/// "12: 97 98 -> 99 (choice 1); ..." of the predictions of a sequence.
std::string described(const ScoredSequence& sequence) {
  std::string text;
  for (const Prediction& one : sequence.predictions)
    text += str(one.position, ">", one.target, "/", one.choice, " ");
  return text;
}

struct Reading : ::testing::Test {
  testing::TempDir dir;
  Task read(std::string_view lines, std::int64_t limit = 0) {
    testing::write_bytes(dir / "t.jsonl", lines);
    EvaluationOptions options{.tasks = {{"t", (dir / "t.jsonl").string()}}, .limit = limit};
    return read_tasks(options).at(0);
  }
  std::string refusal(std::string_view lines) {
    return message_of([&] { (void)read(lines); });
  }
};

TEST_F(Reading, ItemsOfBothKinds) {
  const Task task = read(R"({"context": "c", "choices": ["x", "y"], "answer": 1, "more": []})"
                         "\n\n"
                         R"({"context": "", "choices": ["x", "y", "z"], "answer": 0})");
  EXPECT_EQ(task.kind, TaskKind::kChoices);
  ASSERT_EQ(task.items.size(), 2U);
  EXPECT_EQ(task.items[0].answer, 1U);
  EXPECT_EQ(task.items[1].choices.size(), 3U);
  EXPECT_TRUE(task.items[1].place.ends_with("t.jsonl:3")) << task.items[1].place;
  const Task exact = read(R"({"prompt": "p", "answers": ["a", "b"]})");
  EXPECT_EQ(exact.kind, TaskKind::kExact);
  EXPECT_EQ(exact.items[0].context, "p");
  EXPECT_EQ(exact.answer.until, std::vector<std::string>{"\n"});
}

TEST_F(Reading, PrefixesAndLimits) {
  testing::write_bytes(dir / "examples.txt", "1 + 1 = 2\n");
  testing::write_bytes(dir / "t.jsonl",
                       "{\"prompt\": \"a\", \"answers\": [\"1\"]}\n{\"prompt\": \"b\", "
                       "\"answers\": [\"2\"]}\nnot read");
  const EvaluationOptions options{.tasks = {{"t", (dir / "t.jsonl").string()}},
                                  .prefix = {{"t", (dir / "examples.txt").string()}},
                                  .until = {{"t", "Question:"}},
                                  .after = {{"t", "####"}},
                                  .limit = 2,
                                  .max_new_tokens = 7};
  const Task task = read_tasks(options).at(0);
  ASSERT_EQ(task.items.size(), 2U);
  EXPECT_EQ(task.items[1].context, "1 + 1 = 2\nb");
  EXPECT_EQ(task.answer.until, std::vector<std::string>{"Question:"});
  EXPECT_EQ(task.answer.after, "####");
  EXPECT_EQ(task.answer.max_new_tokens, 7);
}

TEST_F(Reading, SettingsOfAnswersNeedATaskThatGeneratesThem) {
  const auto file = [&](const char* name, std::string_view line) {
    testing::write_bytes(dir / name, line);
    return (dir / name).string();
  };
  EvaluationOptions options{
      .tasks = {{"a", file("a.jsonl", R"({"context": "c", "choices": ["x", "y"], "answer": 1})")}},
      .after = {{"a", "####"}}};
  EXPECT_EQ(message_of([&] { (void)read_tasks(options); }),
            "--until and --after (evaluation.until and .after) are about generated answers, but the task has "
            "choices "
            "alone: remove them, or name a file of {\"prompt\", \"answers\"}");
  options.tasks.emplace_back("b", file("b.jsonl", R"({"prompt": "p", "answers": ["a"]})"));
  EXPECT_EQ(read_tasks(options).size(), 2U);
}

TEST_F(Reading, TextsOfOtherSystems) {
  testing::write_bytes(dir / "examples.txt",
                       "\xEF\xBB\xBF"
                       "1 + 1 = 2\r\n");
  testing::write_bytes(dir / "t.jsonl", "\xEF\xBB\xBF{\"prompt\": \"a\", \"answers\": [\"1\"]}\r\n");
  const Task task = read_tasks({.tasks = {{"t", (dir / "t.jsonl").string()}},
                                .prefix = {{"t", (dir / "examples.txt").string()}}})
                        .at(0);
  ASSERT_EQ(task.items.size(), 1U);
  EXPECT_EQ(task.items[0].context, "1 + 1 = 2\na");
}

TEST_F(Reading, FaultsNameTheirLine) {
  const std::string good = R"({"context": "c", "choices": ["x", "y"], "answer": 1})"
                           "\n";
  const std::vector<std::pair<std::string, std::string>> faults{
      {R"({"context": "c", "choices": ["x"], "answer": 0})", "expected at least two choices"},
      {R"({"context": "c", "choices": ["x", ""], "answer": 0})", "choices[1] is \"\", expected a text"},
      {R"({"context": "c", "choices": ["x", "y"], "answer": 2})",
       "answer is 2, expected a number from 0 to 1"},
      {R"({"context": "c", "choices": ["x", "y"], "answer": "A"})", "answer is \"A\""},
      {R"({"context": "c", "choices": ["x", "y"]})", "has no field 'answer'"},
      {R"({"choices": ["x", "y"], "answer": 0})", "has no field 'context'"},
      {R"({"prompt": "c", "answers": []})", "expected at least one answer"},
      {R"({"prompt": "c", "answers": ["x"]})", "those before it do not"},
      {R"({"text": "c"})", "neither 'choices' nor 'answers'"},
      {"{", "t.jsonl:2"},
  };
  for (const auto& [line, expected] : faults) {
    const std::string message = refusal(good + line);
    EXPECT_MENTIONS(message, "t.jsonl:2", expected);
  }
  EXPECT_MENTIONS(refusal("\n \n"), "has no item");
}

TEST(ScoredSequences, AChoiceBeginsWithASpaceAndIsCutBehindTheContext) {
  const auto found = sequences("q", {"ab", "c"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].ids, (Ids{300, 'q', 256}));  // " a" is one token; the last one is only predicted
  EXPECT_EQ(described(found[0]), str("1>256/0 2>", int{'b'}, "/0 "));
  EXPECT_EQ(found[1].ids, (Ids{300, 'q', ' '}));
  EXPECT_EQ(described(found[1]), str("1>", int{' '}, "/1 2>", int{'c'}, "/1 "));
}

TEST(ScoredSequences, WhiteSpaceBehindTheContextBelongsToTheChoice) {
  const auto found = sequences("q \n\xC2\xA0", {"b", "cc"});
  EXPECT_EQ(found[0].ids, (Ids{300, 'q', ' ', '\n', 0xC2, 0xA0, ' ', 'c'}));
  EXPECT_EQ(found[0].predictions.size(), 7U + 6U);
}

TEST(ScoredSequences, AnEmptyContextIsTheFirstTokenOfTexts) {
  EXPECT_EQ(sequences("", {"b", "c"})[0].ids, (Ids{300, ' '}));
  const std::string message = message_of([] {
    (void)scored_sequences(choices("", {"b", "c"}), Bytes(false), kLimits);
  });
  EXPECT_MENTIONS(message, "no token to begin with");
}

TEST(ScoredSequences, ChoicesShareTheirBeginning) {
  // "a" and "ab" begin with the same tokens, and so do their inputs: one sequence has the predictions of
  // both.
  const auto found = sequences("q", {"a", "ab", "abc"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].ids, (Ids{300, 'q', 256, 'b'}));
  EXPECT_EQ(found[0].predictions.size(), 1U + 2U + 3U);
}

TEST(ScoredSequences, ItemsThatTheModelDoesNotTakeAreRefused) {
  const std::string long_one = message_of([] { (void)sequences("qqqqqqqqqq", {"bb", "cc"}); });
  EXPECT_MENTIONS(long_one, "t.jsonl:1: the item has 13 tokens; the model takes at most 12");
  const std::string foreign = message_of([] {
    (void)scored_sequences(choices("q", {"a", "b"}), Bytes(false), {.positions = 12, .vocab_size = 256});
  });
  EXPECT_MENTIONS(foreign, "token id 256");
  for (const char* context : {"q", ""}) {
    const std::string first = message_of([&] {
      (void)scored_sequences(choices(context, {"b", "c"}), Bytes(), {.positions = 12, .vocab_size = 300});
    });
    EXPECT_MENTIONS(first, "t.jsonl:1: a text has token id 300; the tokenizer has 301 ids and the model 300");
  }
  Task exact{.name = "t", .kind = TaskKind::kExact, .items = {{.context = "qqqq", .place = "t.jsonl:1"}}};
  exact.answer.max_new_tokens = 7;
  EXPECT_EQ(prompt_ids(exact, Bytes(), kLimits).at(0).size(), 5U);
  exact.answer.max_new_tokens = 8;
  EXPECT_MENTIONS(message_of([&] { (void)prompt_ids(exact, Bytes(), kLimits); }), "up to 8 new ones");
}

}  // namespace
}  // namespace echelon::data
