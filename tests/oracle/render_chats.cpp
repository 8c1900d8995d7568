// render_chats: renders chats. Of each line of standard input, an object with template, messages, tools,
// variables, add_generation_prompt and now, writes one with text and runs ([end, message, generated]...), or
// with error. Of one that names a tokenizer, the ids with which `sample --chat` asks for the next turn.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/foreign_json.h"
#include "data/chat/chat_encoder.h"
#include "text/template/chat_template.h"
#include "text/tokenizer.h"

namespace {

using Json = nlohmann::ordered_json;

Json render(const echelon::ChatTemplate& chat_template, const Json& given) {
  const echelon::ChatInput input{given.at("messages"), given.at("tools"), given.at("variables"),
                                 given.at("add_generation_prompt"), given.at("now")};
  const echelon::RenderedChat chat = chat_template.render(input);
  Json runs = Json::array();
  for (const echelon::ChatRun& run : chat.runs) runs.push_back({run.end, run.message, run.generated});
  return {{"text", chat.text}, {"runs", std::move(runs)}};
}

/// Made once, as reading takes long.
const echelon::Tokenizer& tokenizer_of(const std::string& file) {
  static const auto tokenizer = echelon::Tokenizer::load(file);
  return *tokenizer;
}

Json ask(const Json& given) {
  const echelon::data::ChatSource source{.text = given.at("template"),
                                         .origin = "template",
                                         .variables = given.at("variables"),
                                         .now = given.at("now").get<std::time_t>()};
  const echelon::Tokenizer& tokenizer = tokenizer_of(given.at("tokenizer"));
  const echelon::data::ChatEncoder chat(source, {.typed = echelon::data::TypedTokens::kEscape}, tokenizer);
  return {{"ids", chat.encode_prompt({given.at("messages"), nullptr}, *tokenizer.make_encoder())}};
}

}  // namespace

int main() {
  std::string line;
  std::string last;
  std::optional<echelon::ChatTemplate> chat_template;
  while (std::getline(std::cin, line)) {
    try {
      const Json given = echelon::parse_ordered_json(line, "standard input", echelon::Code::kUsage);
      if (given.contains("tokenizer")) {
        std::cout << ask(given).dump() << "\n";
        continue;
      }
      if (const std::string text = given.at("template"); !chat_template || text != last) {
        chat_template.reset();
        chat_template.emplace(text, "template");
        last = text;
      }
      std::cout << render(*chat_template, given).dump() << "\n";
    } catch (const echelon::Error& error) {
      std::cout << Json{{"error", error.what()}}.dump(-1, ' ', true) << "\n";
    }
  }
  return 0;
}
