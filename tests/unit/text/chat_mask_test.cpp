#include "text/template/chat_mask.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace echelon {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor "
    "%}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// As Qwen3: reasoning is left out of all turns but the last.
constexpr std::string_view kForgetful =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and not loop.last %}"
    "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

Json turn(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

MaskedChat mask(std::string_view text, const Json& messages, ChangedTurns changed = ChangedTurns::kRefuse) {
  const Json none;
  const Json variables = {{"eos_token", "</s>"}};
  return mask_chat(ChatTemplate(text, "chat.jinja"), {messages, none, variables}, changed);
}

std::string trained(const MaskedChat& masked) {
  std::string made;
  for (const TextSpan& span : masked.trained)
    made += "[" + masked.chat.text.substr(span.begin, span.end - span.begin) + "]";
  return made;
}

TEST(ChatMask, TrainsEachTurnWithItsEndAndNothingElse) {
  const MaskedChat masked = mask(kChatMl, {turn("system", "S"), turn("user", "a"), turn("assistant", "b"),
                                           turn("user", "c"), turn("assistant", "")});
  EXPECT_EQ(trained(masked), "[b<|im_end|>\n][<|im_end|>\n]");
  EXPECT_EQ(masked.turns, 2U);
  EXPECT_EQ(masked.trained.size(), 2U);
  EXPECT_EQ(trained(mask(kChatMl, Json::array({turn("user", "a")}))), "");
}

TEST(ChatMask, TakesTheEndOfATextFromItsTurnsButTheLast) {
  // As Phi-3.
  constexpr std::string_view kClosing =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% else %}{{ eos_token }}{% endif %}";
  EXPECT_EQ(trained(mask(kClosing, {turn("user", "a"), turn("assistant", "b"), turn("user", "c"),
                                    turn("assistant", "d")})),
            "[b<|end|>][d<|end|></s>]");
}

TEST(ChatMask, TakesWhatIsBetweenTags) {
  constexpr std::string_view kTagged =
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(trained(mask(kTagged, {turn("user", "a"), turn("assistant", "b"), turn("assistant", "c")})),
            "[b</s>][c</s>]");
  constexpr std::string_view kOther =
      "{{ messages[0].content }}{% if x %}{% generation %}{% endgeneration %}{% endif %}";
  EXPECT_THROW((void)mask(kOther, Json::array({turn("assistant", "b")})), Error);
}

TEST(ChatMask, TrainsTheLastTurnOrNoneWhereEarlierOnesChange) {
  const Json chat = {turn("user", "a"), turn("assistant", "<think>x</think>b"), turn("user", "c"),
                     turn("assistant", "<think>y</think>d")};
  EXPECT_THROW((void)mask(kForgetful, chat), Error);
  const MaskedChat masked = mask(kForgetful, chat, ChangedTurns::kLastTurn);
  EXPECT_EQ(trained(masked), "[<think>y</think>d<end>]");
  EXPECT_EQ(masked.turns, 2U);
  EXPECT_EQ(masked.trained.size(), 1U);
}

TEST(ChatMask, RefusesATurnThatThePromptDoesNotLeadTo) {
  constexpr std::string_view kOtherPrompt =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "
      "%}<model>{% endif %}";
  const Json chat = {turn("user", "a"), turn("assistant", "b")};
  EXPECT_THROW((void)mask(kOtherPrompt, chat), Error);
  EXPECT_THROW((void)mask(kOtherPrompt, chat, ChangedTurns::kLastTurn), Error);
}

TEST(ChatMask, TellsWhetherTheEndOfATurnIsTrained) {
  const auto ends = [](std::string_view text) {
    const MaskedChat masked = mask(text, {turn("user", "a"), turn("assistant", "b"), turn("assistant", "c")});
    const TurnEnds found = turn_ends_of(masked, {"</s>", "<|im_end|>"});
    return std::to_string(found.trained) + " of " + std::to_string(found.trained + found.left_out);
  };
  EXPECT_EQ(ends(kChatMl), "2 of 2");
  EXPECT_EQ(ends("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
                 "endgeneration %}"
                 "{{ ' </s>' }}{% else %}{{ m.content }}{% endif %}{% endfor %}"),
            "0 of 2");
  EXPECT_EQ(ends("{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
                 "{% if add_generation_prompt %}assistant:{% endif %}"),
            "0 of 0");
}

}  // namespace
}  // namespace echelon
