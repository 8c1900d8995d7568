#include "text/template/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

using Json = nlohmann::ordered_json;

const Json kMessages =
    Json::parse(R"([{"role": "user", "content": "Hi </s> é"}, {"role": "bot", "content": "Yo"}])");

RenderedChat render(std::string_view text, const ChatTemplateLimits& limits = {}, const Json& tools = {}) {
  const Json variables = {{"eos_token", "</s>"}};
  return ChatTemplate(text, "chat.jinja", limits).render({kMessages, tools, variables});
}

std::string refusal(std::string_view text, const ChatTemplateLimits& limits = {}) {
  std::string said = test::refusal(Code::kData, [&] { return render(text, limits); });
  EXPECT_FALSE(test::mentions(said, "\n"));
  return said;
}

/// What each message, the tools and the template wrote: "0[Hi]-1[.]".
std::string sources(const RenderedChat& chat) {
  std::string made;
  std::size_t begin = 0;
  for (const ChatRun& run : chat.runs) {
    made += std::to_string(run.message) + (run.generated ? "g[" : "[") +
            chat.text.substr(begin, run.end - begin) + "]";
    begin = run.end;
  }
  return made;
}

TEST(ChatTemplate, KnowsWhoWroteEachCharacter) {
  EXPECT_EQ(sources(render(
                "{% for m in messages %}{{ m.role | upper ~ ': ' ~ m.content + eos_token }}\n{% endfor %}")),
            "0[USER]-1[: ]0[Hi </s> é]-1[</s>\n]1[BOT]-1[: ]1[Yo]-1[</s>\n]");
  EXPECT_EQ(sources(render("{{ messages | map(attribute='content') | join('|') }}")),
            "0[Hi </s> é]-1[|]1[Yo]");
  EXPECT_EQ(sources(render("{{ messages[1].content.replace('o', eos_token)[::-1] }}")), "-1[>s/<]1[Y]");
  EXPECT_EQ(sources(render("{% set c %}{{ messages[1].content | trim }}{% endset %}{{ [c] | tojson }}")),
            "-1[[\"]1[Yo]-1[\"]]");
  EXPECT_EQ(
      sources(render("{{ tools[0].name }}{{ messages[0].content.split(' ')[2] }}", {}, {{{"name", "f"}}})),
      "-2[f]0[é]");
}

TEST(ChatTemplate, MarksWhatIsGenerated) {
  constexpr std::string_view kText =
      "{% macro say(m) %}<{% generation %}{{ m.content }}.{% endgeneration %}>{% endmacro %}"
      "{% set later = say(messages[1]) %}{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}{{ "
      "later }}";
  EXPECT_EQ(sources(render(kText)), "-1g[1]-1[<]1g[Yo]-1g[.]-1[>]");
}

TEST(ChatTemplate, TellsWhereATemplateIsWrong) {
  EXPECT_EQ(refusal("a\n{% if x %}"),
            "chat.jinja:2: what begins here does not end; expected 'endif'; change the chat template");
  EXPECT_EQ(refusal("{{ x"),
            "chat.jinja:1: what begins with '{{' does not end; expected '}}'; change the chat template");
  EXPECT_EQ(refusal("\n\n{# x"),
            "chat.jinja:3: this comment does not end; expected '#}'; change the chat template");
  EXPECT_EQ(refusal("{{ 'x }}"),
            "chat.jinja:1: this text does not end; expected a closing quote; change the chat template");
  EXPECT_EQ(refusal("{{ 1 + }}"), "chat.jinja:1: expected a value, found '}}'; change the chat template");
  EXPECT_EQ(
      refusal("{% include 'x' %}"),
      "chat.jinja:1: the tag 'include' is not known here; known are if, for, set, macro, generation, break "
      "and continue; change the chat template");
  EXPECT_EQ(refusal("{{ x | shuffle }}"),
            "chat.jinja:1: no filter 'shuffle' is known; change the chat template");
  EXPECT_EQ(refusal("{{ x is odder }}"), "chat.jinja:1: no test 'odder' is known; change the chat template");
  EXPECT_EQ(refusal("{% break %}"), "chat.jinja:1: 'break' outside of a loop; change the chat template");
  EXPECT_EQ(refusal("\xFF"), "chat.jinja: not UTF-8, expected a chat template");
  EXPECT_EQ(render(std::string(200, '(')).text, std::string(200, '('));
  EXPECT_EQ(refusal("{{" + std::string(200, '(') + "1" + std::string(200, ')') + "}}"),
            "chat.jinja:1: nested deeper than 100 levels; change the chat template");
  std::string sum = "{{ 1";
  for (int i = 0; i < 200; ++i) sum += " + 1";
  EXPECT_EQ(refusal(sum + "}}"), "chat.jinja:1: nested deeper than 100 levels; change the chat template");
}

TEST(ChatTemplate, TellsWhereAConversationFails) {
  EXPECT_EQ(refusal("\n{{ raise_exception('Roles must\nalternate') }}"),
            "chat.jinja:2: the template refuses this conversation: Roles must\\x0aalternate");
  EXPECT_EQ(refusal("{{ nobody.content }}"), "chat.jinja:1: 'nobody' is undefined");
  EXPECT_EQ(refusal("{{ messages[0].content + 1 }}"),
            "chat.jinja:1: '+' cannot be used on a text and an integer");
  EXPECT_EQ(refusal("{{ messages.append(1) }}"), "chat.jinja:1: this method of a list is not supported");
  EXPECT_EQ(refusal("{{ none.x.y }}"), "chat.jinja:1: 'x' is undefined");
  EXPECT_EQ(refusal("{% macro m(a) %}{% endmacro %}\n{{ m(1, 2) }}"),
            "chat.jinja:2: macro 'm' takes 1 arguments, found 2");
  EXPECT_EQ(refusal("{{ 'a' | trim('b', 'c') }}"), "chat.jinja:1: 'trim' takes 1 arguments, found 2");
  EXPECT_EQ(refusal("{{ 1 // 0 }}"), "chat.jinja:1: division by zero");
  EXPECT_EQ(refusal("{% set x = {} %}{% set x.y = 1 %}"),
            "chat.jinja:1: 'x' is a dictionary, only a namespace can be changed");
}

TEST(ChatTemplate, EndsWhatWouldNotEnd) {
  ChatTemplateLimits quick;
  quick.work = 2'000'000;
  const std::string work =
      "chat.jinja:1: it takes more work than a conversation can need; does the template loop?";
  const std::string many = "{% for i in range(99999) %}{% for j in range(99999) %}";
  EXPECT_EQ(refusal(many + "{% endfor %}{% endfor %}", quick), work);
  EXPECT_EQ(refusal("{{ 'x' * 999999999 }}", quick), work);
  EXPECT_EQ(
      refusal(
          "{% set ns = namespace(x='xy') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
          quick),
      work);
  EXPECT_EQ(
      refusal(
          "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
          "{{ ns.x }}",
          quick),
      work);
  EXPECT_EQ(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            "chat.jinja:1: macros call each other too deeply");
  EXPECT_EQ(
      refusal("{% set ns = namespace(x=[1]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}"),
      "chat.jinja:1: values are nested deeper than 100 levels");
  EXPECT_EQ(refusal("{% set ns = namespace() %}{% set ns.x = [ns] %}"),
            "chat.jinja:1: a namespace cannot be put into a list, a dictionary or a namespace");
  ChatTemplateLimits small;
  small.characters = 10;
  EXPECT_EQ(render("{{ 'x' * 10 }}", small).text.size(), 10U);
  EXPECT_EQ(refusal("{{ 'x' * 9 }}yz", small), "chat.jinja:1: it gives more than 10 characters");
}

}  // namespace
}  // namespace echelon
