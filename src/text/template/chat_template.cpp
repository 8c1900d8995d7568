#include "text/template/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "text/template/interpreter.h"
#include "text/template/lexer.h"
#include "text/utf8.h"

namespace echelon {

namespace jinja = data::jinja;

struct ChatTemplate::Tree {
  jinja::Node root;
};

namespace {

using Json = nlohmann::ordered_json;

jinja::Variables variables_of(const ChatInput& input) {
  jinja::Items messages;
  for (const Json& message : input.messages)
    messages.push_back(jinja::from_json(message, static_cast<std::int32_t>(messages.size())));
  jinja::Variables made{{"messages", jinja::list_value(std::move(messages))},
                        {"tools", jinja::from_json(input.tools, jinja::kFromTools)},
                        {"documents", jinja::None()},
                        {"add_generation_prompt", input.add_generation_prompt}};
  for (const auto& [name, value] : input.variables.items())
    made.emplace(name, jinja::from_json(value, jinja::kFromTemplate));
  return made;
}

bool has_generation(const jinja::Node& node) {
  return node.form == jinja::Form::kGeneration || std::ranges::any_of(node.parts, has_generation);
}

RenderedChat rendered(const jinja::Text& text) {
  RenderedChat chat;
  for (const jinja::Char c : text) {
    jinja::append_utf8(c.code, chat.text);
    const bool same = !chat.runs.empty() && chat.runs.back().message == c.origin &&
                      chat.runs.back().generated == (c.generated == 1);
    if (!same) chat.runs.push_back({0, c.origin, c.generated == 1});
    chat.runs.back().end = chat.text.size();
  }
  return chat;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, std::string origin, const ChatTemplateLimits& limits)
    : origin_(std::move(origin)), limits_(limits) {
  if (text.size() > limits.template_bytes)
    throw Error(Code::kData, origin_, ": ", text.size(), " bytes, expected a chat template of at most ",
                limits.template_bytes);
  if (data::find_invalid_utf8(text) != std::string_view::npos)
    throw Error(Code::kData, origin_, ": not UTF-8, expected a chat template");
  try {
    tree_ = std::make_unique<const Tree>(Tree{jinja::parse_template(jinja::to_text(text))});
  } catch (const jinja::Fault& fault) {
    throw Error(Code::kData, origin_, ":", fault.line, ": ", fault.text, "; change the chat template");
  }
}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::marks_generation() const {
  return has_generation(tree_->root);
}

RenderedChat ChatTemplate::render(const ChatInput& input) const {
  if (!input.messages.is_array()) throw Error(Code::kData, "'messages' is no list");
  jinja::Interpreter interpreter({jinja::Budget(limits_.work), input.now}, limits_.characters);
  try {
    return rendered(interpreter.run(tree_->root, variables_of(input)));
  } catch (const Error& e) {
    throw e.in(str(origin_, ":", interpreter.line()));
  }
}

}  // namespace echelon
