#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "data/chat/chat_encoder.h"
#include "data/chat/conversation.h"
#include "data/prepare/prepare.h"
#include "data/prepared.h"
#include "data/tokens/token_file.h"
#include "support/matches.h"
#include "support/tokenizer_json.h"
#include "text/tokenizer.h"
#include "unit/data/fixtures.h"

namespace echelon::data {
namespace {

using namespace testing;  // NOLINT
using Json = nlohmann::ordered_json;

constexpr std::string_view kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// ChatML with generation tags around `tagged` of the assistant's turns.
std::string tagged(std::string_view before, std::string_view inside, std::string_view behind) {
  return str("{% for m in messages %}{% if m.role == 'assistant' %}", before, "{% generation %}", inside,
             "{% endgeneration %}", behind,
             "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}");
}

class PrepareChat : public ::testing::Test {
 protected:
  void SetUp() override {
    Json tokenizer = testing::byte_level_document();
    std::int32_t id = 261;
    for (const char* name : {"<|im_start|>", "<|im_end|>", "<|user|>"}) {
      Json token = tokenizer["added_tokens"][0];
      token["content"] = name;
      token["id"] = id++;
      tokenizer["added_tokens"].push_back(token);
    }
    write_bytes(dir_ / "hf/tokenizer.json", tokenizer.dump());
    write_bytes(dir_ / "hf/tokenizer_config.json",
                Json{{"eos_token", "<|im_end|>"}, {"bos_token", nullptr}}.dump());
    options_.sources = {(dir_ / "chats.jsonl").string()};
    options_.output = (dir_ / "out").string();
    options_.tokenizer = (dir_ / "hf").string();
    options_.format = TextFormat::kChat;
    options_.validation_fraction = 0;
    options_.threads = 2;
    use(std::string(kChatMl));
    source({chat({{"user", "Hi"}, {"assistant", "the he"}})});
  }

  void use(const std::string& chat_template) { write_bytes(dir_ / "hf/chat_template.jinja", chat_template); }
  void source(const std::vector<Json>& lines) {
    std::string text;
    for (const Json& line : lines) text += line.dump() + "\n";
    write_bytes(dir_ / "chats.jsonl", text);
  }
  static Json chat(const std::vector<std::pair<const char*, const char*>>& turns) {
    Json messages = Json::array();
    for (const auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
    return {{"messages", std::move(messages)}};
  }
  PrepareReport run() {
    return prepare(options_, [](const PrepareProgress&) {});
  }

  /// What stops the work, without the file's name; nothing may be left of it.
  std::string refusal(Code code = Code::kData) {
    const std::string text = message_of([&] { run(); }, code);
    EXPECT_TRUE(std::filesystem::is_empty(options_.output) || !std::filesystem::exists(options_.output))
        << text;
    std::string shorter = text;
    const std::string folder = dir_.path().string() + "/";
    for (auto at = shorter.find(folder); at != std::string::npos; at = shorter.find(folder))
      shorter.erase(at, folder.size());
    return shorter;
  }
  std::string refusal_of(const std::string& line) {
    write_bytes(dir_ / "chats.jsonl", "\n" + line + "\n");
    std::string text = refusal();
    EXPECT_TRUE(text.starts_with("bad record chats.jsonl:2: ")) << text;
    EXPECT_TRUE(text.ends_with("; correct it or use --on-bad-record skip")) << text;
    return text.substr(26, text.find("; correct it or") - 26);
  }

  /// Each conversation of train.tok, what is trained between brackets.
  std::vector<std::string> stored() const {
    const auto tokenizer = Tokenizer::load(dir_ / "out/tokenizer.json");
    const TokenFile file(dir_ / "out/train.tok");
    std::vector<std::string> texts;
    for (std::uint64_t i = 0; i < file.document_count(); ++i) {
      std::vector<std::int64_t> ids(file.document(i).end - file.document(i).begin);
      std::vector<bool> trained;
      file.read(file.document(i).begin, ids, &trained);
      std::string text;
      for (std::size_t at = 0; at < ids.size(); ++at) {
        if (trained[at] && (at == 0 || !trained[at - 1])) text += "[";
        text += tokenizer->piece_of(static_cast<std::int32_t>(ids[at]));
        if (trained[at] && (at + 1 == ids.size() || !trained[at + 1])) text += "]";
      }
      texts.push_back(text);
    }
    return texts;
  }

  TempDir dir_;
  PrepareOptions options_;
};

using Texts = std::vector<std::string>;

TEST_F(PrepareChat, StoresTheTextOfAConversationAndWhatIsTrained) {
  source({chat({{"system", "S"}, {"user", "a"}, {"assistant", "thé"}, {"user", "b"}, {"assistant", "d"}}),
          chat({{"user", "Hi"}, {"assistant", "x"}})});
  const PrepareReport report = run();
  EXPECT_EQ(stored(),
            (Texts{"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
                   "[thé<|im_end|>\n]<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>\n]",
                   "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[x<|im_end|>\n]"}));
  ASSERT_TRUE(report.chat);
  EXPECT_EQ(report.chat->samples, 2U);
  EXPECT_EQ(report.chat->tokens, report.train.tokens);
  EXPECT_EQ(report.chat->trained_tokens, 6U + 3 + 3);
  EXPECT_EQ(report.chat->ends_trained, 3U);
  const Json kept = Json::parse(read_bytes(dir_ / "out/prepare.json"));
  EXPECT_EQ(kept["chat"], report.chat->to_json());
  EXPECT_EQ(kept["chat"]["end_of_turn_trained"], true);
  const PrepareReport again = run();
  EXPECT_TRUE(again.up_to_date);
  EXPECT_EQ(again.chat->to_json(), kept["chat"]);
  options_.chat.variables = {"x=1"};
  EXPECT_NE(message_of([&] { run(); }), "");  // made from other options
}

TEST_F(PrepareChat, ReadsOtherNamesAndPromptsWithResponses) {
  source({{{"conversations", {{{"from", "human"}, {"value", "a"}}, {{"from", "gpt"}, {"value", "b"}}}}}});
  options_.chat.messages = "conversations";
  options_.chat.role_key = "from";
  options_.chat.content_key = "value";
  options_.chat.roles = {"human=user", "gpt=assistant"};
  run();
  const Texts expected{"<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]"};
  EXPECT_EQ(stored(), expected);
  source({{{"q", "a"}, {"a", "b"}}});
  options_.chat = {};
  options_.force = true;
  options_.input = "q";
  options_.target = "a";
  run();
  EXPECT_EQ(stored(), expected);
}

TEST_F(PrepareChat, LosesNoTextBesideAPromptOrMessages) {
  options_.input = "instruction";
  options_.target = "output";
  const Json alpaca{{"instruction", "a"}, {"input", "b"}, {"output", "c"}};
  const Json plain{{"instruction", "a"}, {"input", " "}, {"output", "c"}, {"id", "7"}};
  EXPECT_EQ(refusal_of(alpaca.dump()),
            "has a text 'input' that no option names, so it would be lost: take it with --context input, or "
            "leave it out with --context none");
  source({alpaca, plain});
  options_.chat.context = "input";
  run();
  const std::string answer = "<|im_end|>\n<|im_start|>assistant\n[c<|im_end|>\n]";
  EXPECT_EQ(stored(), (Texts{"<|im_start|>user\na\nb" + answer, "<|im_start|>user\na" + answer}));
  options_.force = true;
  options_.chat.context = "none";
  run();
  EXPECT_EQ(stored(), Texts(2, "<|im_start|>user\na" + answer));

  options_.force = false;
  options_.output = (dir_ / "other").string();
  options_.chat.context = options_.input = options_.target = "";
  Json sharegpt = chat({{"user", "a"}, {"assistant", "c"}});
  sharegpt["system"] = "S";
  EXPECT_MENTIONS(refusal_of(sharegpt.dump()), "take it with --system system");
  options_.output = (dir_ / "out").string();
  options_.force = true;
  options_.chat.system = "system";
  source({sharegpt, chat({{"system", "T"}, {"user", "a"}, {"assistant", "c"}})});
  run();
  EXPECT_EQ(stored(), (Texts{"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na" + answer,
                             "<|im_start|>system\nT<|im_end|>\n<|im_start|>user\na" + answer}));
}

TEST_F(PrepareChat, StopsForAMaskOfEverything) {
  use("{% generation %}{% for m in messages %}{{ m.role + ':' + m.content }}</s>{% endfor %}{% endgeneration "
      "%}");
  EXPECT_EQ(refusal(),
            "the mask trains everything, prompts too, in 1 of 1 conversations (first chats.jsonl:1): correct "
            "'hf/chat_template.jinja', of which is trained what stands between its generation tags");
}

TEST_F(PrepareChat, StopsForAMaskOfNothing) {
  source({chat({{"user", "a"}}), chat({{"user", "b"}})});
  EXPECT_EQ(
      refusal(),
      "the mask trains nothing: none of 2 conversations has a turn of the role 'assistant' (first "
      "chats.jsonl:1); say how the file calls it with --role NAME=assistant, or correct "
      "'hf/chat_template.jinja', of which is trained what each turn of the assistant adds to the text before "
      "it");
  use(tagged("", "{% if m.role == 'bot' %}{{ m.content }}{% endif %}", "{{ m.content }}<|im_end|>"));
  source({chat({{"user", "a"}, {"assistant", "b"}})});
  EXPECT_MENTIONS(refusal(),
                  "the template has generation tags, and nothing of this conversation is between them");
}

TEST_F(PrepareChat, StopsForAnEndOfTurnBehindTheMask) {
  use(tagged("<|im_start|>assistant\n", "{{ m.content }}", "<|im_end|>\n"));
  EXPECT_EQ(
      refusal(),
      "the end of a turn is not trained: in 1 of 1 turns (first chats.jsonl:1) the token that ends it stands "
      "behind what is trained, so the model would never learn to stop; correct 'hf/chat_template.jinja', of "
      "which is trained what stands between its generation tags");
}

TEST_F(PrepareChat, StopsWhereTheNextRoleEndsATurnOutsideOfTheMask) {
  // As GLM: the token of the next role is what the model stops at.
  use("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% endif %}");
  write_bytes(dir_ / "hf/generation_config.json", R"({"eos_token_id": [2, 263]})");
  source({chat({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}})});
  EXPECT_TRUE(
      refusal().starts_with("the end of a turn is not trained: in 1 of 1 turns (first chats.jsonl:1)"));
}

TEST_F(PrepareChat, NotesWithWhichTokensTrainedTurnsEnd) {
  use("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
      "{{ '<|user|>' if m.content == 'call' else '<|im_end|>' }}\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  options_.chat.ends = {"<|user|>"};
  source({chat({{"user", "a"}, {"assistant", "call"}, {"user", "c"}, {"assistant", "d"}})});
  EXPECT_EQ(run().chat->end_ids, (std::set<std::int32_t>{262, 263}));
  EXPECT_EQ(run().chat->end_ids.size(), 2U) << "of finished output";
  const std::string file = (dir_ / "out/train.tok").string();
  EXPECT_EQ(trained_turn_ends({.path = file}), (std::vector<std::int32_t>{262, 263}));
  EXPECT_EQ(trained_turn_ends({.mixture = {{file, 1}}}), (std::vector<std::int32_t>{262, 263}));
  write_bytes(dir_ / "out/prepare.json", R"({"chat": {"turn_ends_trained": 1}})");  // by an earlier version
  EXPECT_EQ(trained_turn_ends({.path = file}), std::vector<std::int32_t>{});
}

TEST_F(PrepareChat, RefusesEndsThatAreNoTokens) {
  options_.chat.ends = {"<|user|>", "<|im_ned|>"};
  EXPECT_EQ(
      refusal(Code::kUsage),
      "--end-of-turn is '<|im_ned|>', which is no token of 'hf/tokenizer.json': name a token as that file "
      "spells it");
  options_.chat.ends = {""};
  EXPECT_MENTIONS(refusal(Code::kUsage), "--end-of-turn is ''");
  options_.chat.ends.clear();
  write_bytes(dir_ / "hf/tokenizer_config.json", R"({"eos_token": "<|added|>"})");
  EXPECT_EQ(
      refusal(),
      "the template's eos_token is '<|added|>', which is no token of 'hf/tokenizer.json', so it would not "
      "be trained: save the tokenizer again with transformers' save_pretrained, which adds the tokens of "
      "added_tokens_decoder in tokenizer_config.json");
  options_.chat.variables = {"eos_token=<|im_end|>"};
  EXPECT_EQ(run().chat->samples, 1U);
}

TEST_F(PrepareChat, TrainsAnEndThatIsThePaddingToo) {
  write_bytes(dir_ / "hf/tokenizer_config.json",
              Json{{"eos_token", "<|im_end|>"}, {"pad_token", "<|im_end|>"}}.dump());
  run();
  EXPECT_EQ(stored(), (Texts{"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[the he<|im_end|>\n]"}));
}

TEST_F(PrepareChat, TemplatesGetTheTokensThatTheModelNames) {
  use("{{ bos_token }}{{ image_token }}{{ sound_token }}{{ eoi_token }}\n" + std::string(kChatMl));
  Json config{{"eos_token", "<|im_end|>"},
              {"bos_token", "[EOT]"},
              {"image_token", "<|user|>"},
              {"extra_special_tokens", {{"sound_token", "[PAD]"}}},
              {"model_specific_special_tokens", {{"eoi_token", "[BOT]"}}}};
  write_bytes(dir_ / "hf/tokenizer_config.json", config.dump());
  write_bytes(dir_ / "hf/special_tokens_map.json", R"({"bos_token": "<|im_start|>"})");
  run();
  EXPECT_TRUE(stored()[0].starts_with("<|im_start|><|user|>[PAD][BOT]\n")) << stored()[0];
  EXPECT_EQ(Json::parse(read_bytes(dir_ / "out/tokenizer_config.json"))["bos_token"], "<|im_start|>");
}

TEST_F(PrepareChat, AConfigurationMayListManyTokens) {
  Json document = Json::parse(read_bytes(dir_ / "hf/tokenizer.json"));
  Json config{{"eos_token", "<|im_end|>"}, {"added_tokens_decoder", Json::object()}};
  for (int i = 0; i < 1100; ++i) {  // Gemma 3 has 6,000
    Json token = document["added_tokens"][0];
    token["content"] = str("<unused", i, ">");
    token["id"] = 264 + i;
    document["added_tokens"].push_back(token);
    token.erase("id");
    config["added_tokens_decoder"][str(264 + i)] = token;
  }
  write_bytes(dir_ / "hf/tokenizer.json", document.dump());
  write_bytes(dir_ / "hf/tokenizer_config.json", config.dump());
  EXPECT_EQ(run().chat->samples, 1U);
}

TEST_F(PrepareChat, CountsConversationsWithoutTargetAndLeavesThemOut) {
  std::vector<Json> lines(20, chat({{"user", "a"}, {"assistant", "b"}}));
  lines[7] = chat({{"user", "only"}});
  source(lines);
  EXPECT_EQ(run().chat->samples_without_target, 1U);
  EXPECT_EQ(stored().size(), 19U);
  options_.chat.max_without_target = 0.04;
  options_.output = (dir_ / "other").string();
  EXPECT_EQ(refusal(),
            "1 of 20 conversations train nothing (first chats.jsonl:8), more than --max-without-target 0.04 "
            "of them: "
            "they have no turn of the assistant; correct them or allow more");
}

TEST_F(PrepareChat, SaysWhatIsNoConversation) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"{",
       "the line: not valid JSON at byte 2: syntax error while parsing object key - unexpected end of input; "
       "expected string literal"},
      {"[1]", "not a JSON object but number"},
      {R"({"text": "a"})", "has no field 'messages'; name the list of messages with --messages"},
      {R"({"messages": "a"})", "field 'messages' is string, expected a list of messages"},
      {R"({"messages": []})", "field 'messages' has no messages"},
      {R"({"messages": ["a"]})", "messages[0] is string, expected an object"},
      {R"({"messages": [{"content": "a"}]})",
       "messages[0] has no 'role': name its keys with --role-key and --content-key"},
      {R"({"messages": [{"role": 1, "content": "a"}]})", "messages[0].role is number, expected a text"},
      {R"({"messages": [{"role": "gpt", "content": "a"}]})",
       "messages[0] has the role 'gpt', expected system, developer, user, assistant, tool or function; say "
       "what it is "
       "with --role 'gpt=assistant'"},
      {R"({"messages": [{"role": "user", "content": " \n"}]})",
       "messages[0] (user) is empty: an empty turn teaches nothing; leave it out"},
      {R"({"messages": [{"role": "user"}]})", "messages[0] (user) has no 'content'"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content is number, expected a text"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": "x"})",
       "field 'tools' is string, expected a list"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [18446744073709551616]})",
       "the line: integer 18446744073709551616 has more than 64 bits; write it as a text"},
  };
  for (const auto& [line, expected] : cases) EXPECT_EQ(refusal_of(line), expected) << line;
}

TEST_F(PrepareChat, SuggestsTheRoleThatANameMeans) {
  for (const auto& [name, role] : {std::pair("human", "user"),
                                   {"User", "user"},
                                   {"Assistant", "assistant"},
                                   {"ChatGPT", "assistant"},
                                   {"bot", "assistant"},
                                   {"narrator", "ROLE"}})
    EXPECT_MENTIONS(refusal_of(chat({{name, "a"}}).dump()), str(" with --role '", name, "=", role, "'"));
}

TEST_F(PrepareChat, SaysWhatTheTemplateRefuses) {
  use("{% for m in messages %}{% if loop.index0 % 2 != (m.role == 'assistant') %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(refusal_of(chat({{"user", "a"}, {"user", "b"}}).dump()),
            "hf/chat_template.jinja:1: the template refuses this conversation: roles must alternate");
  use("{{ 'x' * 999999999 }}");
  EXPECT_TRUE(
      refusal_of(chat({{"user", "a"}, {"assistant", "b"}}).dump()).starts_with("hf/chat_template.jinja:1: "));
  use("{% for m in %}");
  EXPECT_TRUE(refusal().starts_with("hf/chat_template.jinja:1: "));
  std::filesystem::remove(dir_ / "hf/chat_template.jinja");
  EXPECT_EQ(refusal(),
            "'hf' holds no chat template (chat_template.jinja, or tokenizer_config.json with chat_template): "
            "name one "
            "with --chat-template FILE");
}

TEST_F(PrepareChat, KeepsEarlierReasoningOutOfTheMaskOrRefuses) {
  use("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and not loop.last %}"
      "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const Json line =
      chat({{"user", "a"}, {"assistant", "x</think>b"}, {"user", "c"}, {"assistant", "y</think>d"}});
  EXPECT_EQ(refusal_of(line.dump()),
            "messages[1]: the text with this turn does not continue the text before it, so what is to be "
            "trained is "
            "not known: train the last turn alone with --changed-turns last, or name a template with "
            "generation tags by --chat-template FILE");
  source({line});
  options_.chat.changed = ChangedTurns::kLastTurn;
  EXPECT_EQ(run().chat->samples_last_turn_only, 1U);
  EXPECT_TRUE(stored()[0].ends_with("assistant\n[y</think>d<|im_end|>\n]"));
  EXPECT_EQ(stored()[0].find('['), stored()[0].rfind('['));
}

TEST_F(PrepareChat, DoesAsToldWithASpecialTokenThatWasTyped) {
  const Json line = chat({{"user", "say <|im_end|>"}, {"assistant", "no"}});
  EXPECT_EQ(refusal_of(line.dump()),
            "a message holds the special token <|im_end|>, which would end or begin a turn; choose with "
            "--special-in-text escape|allow what becomes of it");
  source({line});
  const auto ends = [&] {
    const TokenFile file(dir_ / "out/train.tok");
    std::vector<std::int64_t> ids(file.token_count());
    file.read(0, ids);
    return std::count(ids.begin(), ids.end(), 262);
  };
  options_.force = true;
  options_.chat.typed = TypedTokens::kEscape;
  EXPECT_EQ(run().chat->typed_tokens, 1U);
  EXPECT_EQ(ends(), 2);
  const Texts text{"<|im_start|>user\nsay <|im_end|><|im_end|>\n<|im_start|>assistant\n[no<|im_end|>\n]"};
  EXPECT_EQ(stored(), text);
  options_.chat.typed = TypedTokens::kAllow;
  EXPECT_EQ(run().chat->typed_tokens, 1U);
  EXPECT_EQ(ends(), 3);
  EXPECT_EQ(stored(), text);
}

TEST_F(PrepareChat, EscapesWhereATextBeginsWithASpaceOfTheTokenizer) {
  Json tokenizer = Json::parse(read_bytes(dir_ / "hf/tokenizer.json"));
  tokenizer["pre_tokenizer"]["add_prefix_space"] = true;
  write_bytes(dir_ / "hf/tokenizer.json", tokenizer.dump());
  source({chat({{"user", "say <|im_end|>it"}, {"assistant", "no"}})});
  options_.chat.typed = TypedTokens::kEscape;
  EXPECT_EQ(run().chat->typed_tokens, 1U);
  EXPECT_EQ(stored(), (Texts{"<|im_start|> user\nsay <|im_end|>it<|im_end|> \n<|im_start|> assistant\n"
                             "[no<|im_end|> \n]"}));
}

TEST_F(PrepareChat, TakesARoleInASpecialTokenForTheTemplates) {
  use("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% endif %}");
  EXPECT_EQ(run().chat->typed_tokens, 0U);
}

TEST_F(PrepareChat, RefusesADayThatIsNotFixed) {
  use("{{ strftime_now('%d %b %Y') }}\n" + std::string(kChatMl));
  EXPECT_EQ(refusal(Code::kUsage),
            "chats.jsonl:1: hf/chat_template.jinja:1: the template writes the date of the day "
            "(strftime_now), so its "
            "text would change from day to day: name a date with --date YYYY-MM-DD");
  options_.chat.date = "2024-02-30";
  EXPECT_EQ(refusal(Code::kUsage), "--date is '2024-02-30', expected a day as YYYY-MM-DD");
  options_.chat.date = "2024-07-26";
  run();
  EXPECT_TRUE(stored()[0].starts_with("26 Jul 2024\n"));
}

TEST_F(PrepareChat, TellsOfTokensAcrossTheBorderOfWhatIsTrained) {
  use("{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}");
  EXPECT_EQ(run().chat->torn_tokens, 1U);  // " t" of "the"
  EXPECT_EQ(stored()[0], "user: Hi<|im_end|>\nassistant:[ the he<|im_end|>\n]");
}

TEST_F(PrepareChat, RefusesATokenizerThatChangesTheText) {
  Json tokenizer = Json::parse(read_bytes(dir_ / "hf/tokenizer.json"));
  tokenizer["normalizer"] = {{"type", "NFC"}};
  write_bytes(dir_ / "hf/tokenizer.json", tokenizer.dump());
  EXPECT_EQ(refusal_of(chat({{"user", "e\xCC\x81"}, {"assistant", "b"}}).dump()),
            "the tokenizer changes this text: its tokens give another one from "
            "'e\xCC\x81<|im_end|>\\x0a<|im_start|>assistant\\x0ab<|i...' on, so what of it is trained is not "
            "known");
  source({chat({{"user", "\xC3\xA9"}, {"assistant", "b"}})});
  EXPECT_EQ(run().chat->samples, 1U);
}

TEST_F(PrepareChat, APromptMayBeATextThatTheTokenizerChanges) {
  Json document = Json::parse(read_bytes(dir_ / "hf/tokenizer.json"));
  document["normalizer"] = {{"type", "NFC"}};
  write_bytes(dir_ / "hf/tokenizer.json", document.dump());
  const auto tokenizer = Tokenizer::load(dir_ / "hf/tokenizer.json");
  ChatOptions options;
  options.typed = TypedTokens::kEscape;
  const TokenizerFolder folder(dir_ / "hf/tokenizer.json");
  const ChatEncoder chats(load_chat_source(options, folder, *tokenizer), options, *tokenizer);
  const auto ids = [&](const char* text) {
    const Json messages = chat({{"user", text}})["messages"];
    return chats.encode_prompt({messages, nullptr}, *tokenizer->make_encoder());
  };
  EXPECT_EQ(ids("e\xCC\x81"), ids("\xC3\xA9"));
  EXPECT_EQ(std::ranges::count(ids("<|im_end|>"), 262), 1) << "one that is typed is still a text";
}

TEST_F(PrepareChat, TrainsNoAnswerThatIsMarkedAsNotTrained) {
  Json line = chat({{"user", "Hi"}, {"assistant", "the"}, {"user", "Hi"}, {"assistant", "he"}});
  line["messages"][3]["weight"] = 1;
  line["messages"][3]["train"] = true;
  line["messages"][0]["train"] = false;
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{
           {"weight", 0}, {"weight", 0.5}, {"train", false}, {"training", false}}) {
    Json marked = line;
    marked["messages"][1][key] = value;
    EXPECT_MENTIONS(refusal_of(marked.dump()), str("messages[1] has '", key, "' ", value.dump(), ", but"));
  }
  use("{% for m in messages %}{% if m.role == 'assistant' and m.weight != 0 %}{% generation %}{{ m.content }}"
      "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}");
  line["messages"][1]["weight"] = 0;
  source({line});
  (void)run();
  EXPECT_EQ(stored(), (std::vector<std::string>{"Hi<|im_end|>the<|im_end|>Hi<|im_end|>[he<|im_end|>]"}));
}

TEST_F(PrepareChat, RefusesToolsWhereTheModelHasATemplateForThem) {
  std::filesystem::remove(dir_ / "hf/chat_template.jinja");
  const Json both = {{{"name", "default"}, {"template", kChatMl}}, {{"name", "tool_use"}, {"template", "x"}}};
  write_bytes(dir_ / "hf/tokenizer_config.json",
              Json{{"eos_token", "<|im_end|>"}, {"bos_token", nullptr}, {"chat_template", both}}.dump());
  Json line = chat({{"user", "Hi"}, {"assistant", "the he"}});
  source({line});
  (void)run();
  EXPECT_EQ(stored().size(), 1U);
  options_.force = true;
  line["tools"] = Json::array({{{"name", "look_up"}}});
  source({line});
  EXPECT_MENTIONS(message_of([&] { run(); }, Code::kData), "another template, 'tool_use'");
}

TEST_F(PrepareChat, LeavesOutMembersThatOnlyOtherRowsOfAColumnHave) {
  use("{% if tools %}{{ tools[0].keys() | join }}{% endif %}{% for m in messages %}"
      "{% if 'tool_calls' in m %}!{% endif %}{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% "
      "endfor %}");
  Json line = chat({{"user", "Hi"}, {"assistant", "the"}});
  for (Json& message : line["messages"]) message["tool_calls"] = nullptr;
  line["tools"] = Json::array({{{"name", "f"}, {"strict", nullptr}}});
  Json text = line;
  text["tools"] = R"([{"name": "f", "strict": null}])";
  Json none = line;
  none["tools"] = " ";
  source({line, text, none});
  (void)run();
  EXPECT_EQ(stored(), (std::vector<std::string>{"nameHi[the<|im_end|>]", "namestrictHi[the<|im_end|>]",
                                                "Hi[the<|im_end|>]"}))
      << "a text has what its author wrote";
}

TEST_F(PrepareChat, ALineMayHaveValuesForTheTemplate) {
  use("{{ tone }}\n" + std::string(kChatMl));
  options_.chat.variables = {"tone=calm"};
  Json loud = chat({{"user", "Hi"}, {"assistant", "the"}});
  const Json calm = loud;
  loud["chat_template_kwargs"] = {{"tone", "loud"}};
  source({calm, loud, calm});
  (void)run();
  ASSERT_EQ(stored().size(), 3U);
  EXPECT_TRUE(stored()[0].starts_with("calm\n"));
  EXPECT_TRUE(stored()[1].starts_with("loud\n"));
  EXPECT_EQ(stored()[2], stored()[0]);
  loud["chat_template_kwargs"] = "{}";
  options_.output = (dir_ / "other").string();
  EXPECT_EQ(refusal_of(loud.dump()), "field 'chat_template_kwargs' is string, expected an object");

  options_.output = (dir_ / "out").string();
  options_.force = true;
  options_.format = TextFormat::kPreference;
  const Json pair{
      {"prompt", "a"}, {"chosen", "the"}, {"rejected", "he"}, {"chat_template_kwargs", {{"tone", "loud"}}}};
  source({pair});
  (void)run();
  for (const std::string& answer : stored()) EXPECT_TRUE(answer.starts_with("loud\n")) << answer;
}

TEST_F(PrepareChat, TurnsOfAPromptMayChangeBecauseTheyAreNotTrained) {
  use("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if loop.last and m.role == 'assistant' %}!{% "
      "endif %}<|im_end|>{% "
      "endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}");
  options_.format = TextFormat::kPreference;
  Json line;
  line["prompt"] = chat({{"user", "a"}, {"assistant", "b"}, {"user", "c"}})["messages"];
  line["chosen"] = chat({{"assistant", "the"}})["messages"];
  line["rejected"] = chat({{"assistant", "he"}})["messages"];
  source({line});
  (void)run();
  EXPECT_EQ(stored().size(), 2U);
  EXPECT_TRUE(stored()[0].ends_with("<|assistant|>[the!<|im_end|>]")) << stored()[0];
}

TEST(Preference, APromptBesideWholeConversationsOnlyRepeatsTheirBegin) {
  const auto answers = [](const char* answer) {
    return Json::array({{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", answer}}});
  };
  const Json line = {{"prompt", "Hi"}, {"chosen", answers("a")}, {"rejected", answers("b")}};
  const Preference pair = read_preference(line.dump(), {});
  EXPECT_EQ(pair.prompt.messages.size(), 1U);
  EXPECT_EQ(pair.chosen.size(), 1U);
  EXPECT_EQ(pair.rejected[0]["content"], "b");
}

}  // namespace
}  // namespace echelon::data
