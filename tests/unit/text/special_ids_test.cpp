#include "text/special_ids.h"

#include <map>

#include "base/str.h"
#include "support/matches.h"
#include "support/tokenizer_json.h"
#include "text/tokenizer_folder.h"
#include "text/tokenizer_training.h"
#include "unit/data/fixtures.h"

namespace echelon {
namespace {

using testing::message_of;

using Files = std::map<std::string, std::string>;

SpecialIds ids_of(const Files& files) {
  const TokenizerFolder folder("hf", [&](const std::string& name) {
    const auto file = files.find(name);
    return file == files.end() ? "" : file->second;
  });
  return folder.special_ids();
}

/// [PAD] 0, [BOT] 1, [EOT] 2, which is its own end.
std::unique_ptr<const Tokenizer> tokenizer() {
  return Tokenizer::from_bytes(testing::byte_level_json(), "t");
}

std::int32_t end_of(const Files& files) {
  return document_end(ids_of(files), *tokenizer());
}

TEST(SpecialIds, DocumentsEndAsTheModelSays) {
  EXPECT_EQ(end_of({}), 2);
  EXPECT_EQ(end_of({{"config.json", R"({"eos_token_id": null})"}}), 2);
  EXPECT_EQ(end_of({{"config.json", R"({"eos_token_id": 0})"}}), 0);
  EXPECT_EQ(end_of({{"config.json", R"({"eos_token_id": 7000})"}}), 7000);
  // generate goes by the other file.
  EXPECT_EQ(end_of({{"config.json", R"({"eos_token_id": 0})"},
                    {"generation_config.json", R"({"eos_token_id": [1, 5]})"}}),
            1);
  // Of several ends the tokenizer's own, unless its configuration names another one of them.
  const Files several{{"config.json", R"({"eos_token_id": [5, 2, 0]})"}};
  EXPECT_EQ(end_of(several), 2);
  const auto named = [&](const char* name) {
    Files files = several;
    files["tokenizer_config.json"] = name;
    return end_of(files);
  };
  EXPECT_EQ(named(R"({"eos_token": "[PAD]"})"), 0);
  EXPECT_EQ(named(R"({"eos_token": {"content": "[PAD]", "lstrip": false}})"), 0);
  EXPECT_EQ(named(R"({"eos_token": "[BOT]"})"), 2);
  EXPECT_EQ(named(R"({"eos_token": "no such"})"), 2);
  EXPECT_EQ(end_of({{"tokenizer_config.json", R"({"eos_token": "[BOT]"})"}}), 1);
}

TEST(SpecialIds, TokensAreThoseOfTheMapWhereTheConfigurationListsNone) {
  const std::string map = R"({"eos_token": {"content": "[BOT]", "lstrip": false}})";
  const auto end_beside_map = [&](const char* config) {
    return end_of({{"tokenizer_config.json", config}, {"special_tokens_map.json", map}});
  };
  EXPECT_EQ(end_beside_map(R"({"eos_token": "[EOT]"})"), 1);
  EXPECT_EQ(end_beside_map(""), 1);
  EXPECT_EQ(end_beside_map(R"({"eos_token": "[EOT]", "added_tokens_decoder": {}})"), 2);
}

TEST(SpecialIds, FilesThatSaySomethingElseAreRefused) {
  const auto refusal = [](const char* name, const char* text) {
    return message_of([&] { (void)ids_of({{name, text}}); });
  };
  EXPECT_EQ(refusal("config.json", R"({"eos_token_id": "</s>"})"),
            "'hf/config.json'.eos_token_id is \"</s>\", expected a number from 0 to 2147483646");
  EXPECT_EQ(refusal("generation_config.json", R"({"eos_token_id": [1, -1]})"),
            "'hf/generation_config.json'.eos_token_id[1] is -1, expected a number from 0 to 2147483646");
  EXPECT_EQ(refusal("tokenizer_config.json", R"({"eos_token": 1})"),
            "'hf/tokenizer_config.json'.eos_token is 1, expected a string");
}

TEST(SpecialIds, ATokenizerMayEndTextWithAnIdThatItDoesNotHave) {
  const auto ended = ending_with(tokenizer(), 7000);
  EXPECT_EQ(ended->eos_id(), 7000);
  EXPECT_EQ(ended->vocab_size(), 7001);
  EXPECT_EQ(ended->bos_id(), 1);
  EXPECT_EQ(ended->digest(), tokenizer()->digest());
  std::vector<std::int32_t> ids = ended->encode("the");
  EXPECT_EQ(ids, tokenizer()->encode("the"));
  ids.push_back(7000);
  EXPECT_EQ(ended->decode(ids), "the");
  EXPECT_EQ(ended->decode(std::vector<std::int32_t>{6999}), "\xEF\xBF\xBD");
  EXPECT_EQ(ending_with(tokenizer(), -1)->eos_id(), 2);
}

TEST(SpecialIds, AnIdThatATokenizerDoesNotHaveStandsForNoText) {
  const std::string model = data::train_tokenizer({"some words, and some more words"}, 300);
  const auto ended = ending_with(Tokenizer::from_bytes(model, "t"), 7000);
  for (std::int32_t id = 0; id < ended->vocab_size(); ++id) EXPECT_NO_THROW((void)ended->piece_of(id));
  EXPECT_EQ(ended->piece_of(7000), "");
  EXPECT_EQ(ended->piece_of(3), "\n");
}

TEST(TokenizerFolder, RefusesTokensThatItsConfigurationAddsOrChanges) {
  const auto check_config = [](const std::string& config) {
    const TokenizerFolder folder(
        "hf", [&](const std::string& name) { return name == kTokenizerConfig ? config : std::string(); });
    folder.require_same_tokens(testing::byte_level_json());
  };
  const auto check = [&](const nlohmann::ordered_json& token) {
    check_config(str(R"({"added_tokens_decoder": {"2": )", token.dump(), "}}"));
  };
  nlohmann::ordered_json token = testing::byte_level_document()["added_tokens"][2];
  token["special"] = false;  // which changes no ids
  check(token);
  token["rstrip"] = true;
  EXPECT_MENTIONS(message_of([&] { check(token); }),
                  "the token '[EOT]' of added_tokens_decoder has another rstrip than in tokenizer.json");
  token["content"] = "<new>";
  EXPECT_EQ(message_of([&] { check(token); }),
            "'hf/tokenizer_config.json': the token '<new>' of added_tokens_decoder is not in tokenizer.json "
            "beside it, so transformers encodes text in another way: load the folder with transformers and "
            "write it with save_pretrained, which makes both alike");
  // As transformers 5 writes them.
  check_config(
      R"({"extra_special_tokens": ["[PAD]"], "model_specific_special_tokens": {"a_token": "[BOT]"}})");
  for (const char* tokens :
       {R"("additional_special_tokens": ["[PAD]", "<new>"])", R"("extra_special_tokens": ["<new>"])",
        R"("extra_special_tokens": {"a": "<new>"})",
        R"("model_specific_special_tokens": {"a_token": "<new>"})"})
    EXPECT_MENTIONS(message_of([&] { check_config(str('{', tokens, '}')); }), "the token '<new>' of ",
                    "_special_tokens is not in tokenizer.json");
  check_config(R"({"add_prefix_space": false})");
  EXPECT_MENTIONS(message_of([&] { check_config(R"({"add_prefix_space": true})"); }),
                  "add_prefix_space is true, unlike in tokenizer.json beside it, so transformers 4 encodes");
}

TEST(TokenizerFolder, RefusesAFlagThatBeginsTextsInAnotherWayThanTheTokenizer) {
  nlohmann::ordered_json without = testing::byte_level_document();
  without["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                               {"pair", nlohmann::ordered_json::array()},
                               {"special_tokens", nlohmann::ordered_json::object()}};
  const auto refusal = [](const Tokenizer& tokenizer, const char* kind, const char* flag) {
    const std::string config = str(R"({"tokenizer_class": ")", kind, R"(", "add_bos_token": )", flag, "}");
    const TokenizerFolder folder(
        "hf", [&](const std::string& name) { return name == kTokenizerConfig ? config : std::string(); });
    return test::refusal(Code::kData, [&] { folder.require_same_begin(tokenizer); });
  };
  const auto with_bos = tokenizer();
  const auto without_bos = Tokenizer::from_bytes(without.dump(), "t");
  EXPECT_EQ(
      refusal(*with_bos, "LlamaTokenizerFast", "false"),
      "'hf/tokenizer_config.json': add_bos_token is false, but the tokenizer beside it begins a text with "
      "'[BOT]', so transformers 4 encodes text in another way: load the folder with transformers 4 and write "
      "it with save_pretrained, which makes both alike");
  EXPECT_MENTIONS(refusal(*without_bos, "GPTNeoXTokenizer", "true"),
                  "add_bos_token is true, but the tokenizer beside it begins a text with no token");
  EXPECT_EQ(refusal(*with_bos, "LlamaTokenizer", "true"), "accepted");
  EXPECT_EQ(refusal(*without_bos, "LlamaTokenizer", "false"), "accepted");
  EXPECT_EQ(refusal(*with_bos, "LlamaTokenizer", "null"), "accepted");
  EXPECT_EQ(refusal(*with_bos, "PreTrainedTokenizerFast", "false"), "accepted");
}

}  // namespace
}  // namespace echelon
