#include "data/chat/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits{.depth = 64, .exact_integers = true};
constexpr std::array<std::string_view, 6> kRoles{"system",   "developer", "user",
                                                 kAssistant, "tool",      "function"};

[[noreturn]] void refuse(const std::string& text) {
  throw Error(Code::kData, text);
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

/// Role that the file calls `name`; empty: none is known.
std::string role_of(const std::string& name, const ChatOptions& options) {
  for (const std::string& pair : options.roles) {
    if (pair.substr(0, pair.find('=')) == name) return pair.substr(pair.find('=') + 1);
  }
  return std::ranges::find(kRoles, name) == kRoles.end() ? "" : name;
}

/// The role that is probably meant, for a message; "ROLE" where a guess would make data of the wrong turns.
std::string likely_role(const std::string& name) {
  const std::string lower = in_lower_case(name);
  if (std::ranges::find(kRoles, lower) != kRoles.end()) return lower;
  if (lower == "human") return "user";
  const std::array<std::string_view, 5> models{"gpt", "bot", "model", "chatgpt", "ai"};
  return std::ranges::find(models, lower) == models.end() ? "ROLE" : std::string(kAssistant);
}

void rename(Json& message, const std::string& from, const char* to, const std::string& where) {
  if (from == to || !message.contains(from)) return;
  if (message.contains(to)) refuse(str(where, " has both '", from, "' and '", to, "'; name one of them"));
  Json renamed = Json::object();
  for (auto& [key, value] : message.items()) renamed[key == from ? to : key] = value;
  message = std::move(renamed);
}

/// Columns of Parquet have every member in every row; those that a row lacks are null.
void drop_nulls(Json& value) {
  if (!value.is_structured()) return;
  for (auto part = value.begin(); value.is_object() && part != value.end();)
    part = part->is_null() ? value.erase(part) : std::next(part);
  for (Json& part : value) drop_nulls(part);
}

void check_content(const Json& message, const std::string& role, const ChatOptions& options,
                   const std::string& where) {
  const auto content = message.find("content");
  const bool calls = role == kAssistant && message.contains("tool_calls") && !message["tool_calls"].empty();
  if (content == message.end() || content->is_null()) {
    if (!calls) refuse(str(where, " (", role, ") has no '", options.content_key, "'"));
    return;
  }
  if (content->is_string()) {
    const bool speaks = role == "user" || (role == kAssistant && !calls);
    if (speaks && is_blank(content->get_ref<const std::string&>()))
      refuse(str(where, " (", role, ") is empty: an empty turn teaches nothing; leave it out"));
  } else if (!content->is_array() || content->empty()) {
    refuse(str(where, ".", options.content_key, " is ", content->type_name(), ", expected a text"));
  }
}

void settle_message(Json& message, const std::string& where, const ChatOptions& options) {
  if (!message.is_object()) refuse(str(where, " is ", message.type_name(), ", expected an object"));
  rename(message, options.role_key, "role", where);
  rename(message, options.content_key, "content", where);
  const bool says_nothing = message.contains("content") && message["content"].is_null();
  drop_nulls(message);
  if (says_nothing) message["content"] = nullptr;  // which templates tell from none
  const auto role = message.find("role");
  if (role == message.end())
    refuse(str(where, " has no '", options.role_key, "': name its keys with --role-key and --content-key"));
  if (!role->is_string())
    refuse(str(where, ".", options.role_key, " is ", role->type_name(), ", expected a text"));
  const std::string name = *role;
  const std::string known = role_of(name, options);
  if (known.empty()) {
    refuse(
        str(where, " has the role '", printable(name),
            "', expected system, developer, user, assistant, tool or function; say what it is with --role '",
            printable(name), "=", likely_role(name), "'"));
  }
  *role = known;
  check_content(message, known, options, where);
}

std::string text_of(const Json& object, const std::string& name) {
  const auto field = object.find(name);
  if (field == object.end()) refuse(str("has no field '", printable(name), "'"));
  if (!field->is_string())
    refuse(str("field '", printable(name), "' is ", field->type_name(), ", expected a string"));
  if (is_blank(*field)) refuse(str("field '", printable(name), "' is empty"));
  return *field;
}

/// The text of a field that a line may lack; empty: there is none.
std::string text_if_any(const Json& object, const std::string& name) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null() || (field->is_string() && is_blank(*field))) return "";
  return text_of(object, name);
}

/// Refuses a text that other trainers read and that would be lost here.
void require_options(const Json& object, const ChatOptions& options, const PromptFields& fields) {
  for (const auto& [name, option] : texts_beside(options, fields)) {
    const auto field = object.find(name);
    const bool taken = name == options.system || name == options.context;
    if (taken || field == object.end() || !field->is_string() || is_blank(*field)) continue;
    refuse(str("has a text '", name, "' that no option names, so it would be lost: take it with ", option,
               ' ', name, ", or leave it out with ", option, " none"));
  }
}

void put_system(const Json& object, const ChatOptions& options, Json& messages) {
  const std::string text = text_if_any(object, options.system);
  if (text.empty()) return;
  if (!messages.empty() && messages.front()["role"] == "system")
    refuse(
        str("has a system message and a text '", options.system, "'; leave the text out with --system none"));
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

/// The object of a line.
Json read_object(std::string_view line) {
  Json object = parse_ordered_json(line, "the line", Code::kData, kLimits);
  if (!object.is_object()) refuse(str("not a JSON object but ", object.type_name()));
  return object;
}

/// The tools of a line, or null. A text of them is JSON, as columns of one type need it.
Json take_tools(Json& object, const ChatOptions& options) {
  const auto tools = object.find(options.tools);
  if (tools == object.end() || tools->is_null()) return nullptr;
  drop_nulls(*tools);
  if (tools->is_string()) {
    const std::string text = *tools;
    if (is_blank(text)) return nullptr;
    if (text[text.find_first_not_of(" \t\r\n")] == '[')
      *tools = parse_ordered_json(text, "the tools", Code::kData, kLimits);
  }
  if (!tools->is_array())
    refuse(str("field '", printable(options.tools), "' is ", tools->type_name(), ", expected a list"));
  return tools->empty() ? Json() : std::move(*tools);
}

/// The values of a line for the template.
Json take_variables(const Json& object) {
  const auto field = object.find(kVariables);
  if (field == object.end() || field->is_null()) return Json::object();
  if (!field->is_object())
    refuse(str("field '", kVariables, "' is ", field->type_name(), ", expected an object"));
  return *field;
}

/// The messages of a field; a text is one message of `role`.
Json messages_in(const Json& object, const std::string& name, std::string_view role,
                 const ChatOptions& options) {
  const auto field = object.find(name);
  if (field != object.end() && field->is_array()) {
    Json messages = *field;
    if (messages.empty()) refuse(str("field '", name, "' has no messages"));
    for (std::size_t i = 0; i < messages.size(); ++i)
      settle_message(messages[i], str(name, "[", i, "]"), options);
    return messages;
  }
  if (field != object.end() && !field->is_string())
    refuse(str("field '", name, "' is ", field->type_name(), ", expected a list of messages or a text"));
  return Json::array({{{"role", role}, {"content", text_of(object, name)}}});
}

/// Moves the messages with which both answers begin to the prompt.
void take_common(Preference& pair) {
  while (!pair.chosen.empty() && !pair.rejected.empty() && pair.chosen.front() == pair.rejected.front()) {
    pair.prompt.messages.push_back(pair.chosen.front());
    pair.chosen.erase(0);
    pair.rejected.erase(0);
  }
}

}  // namespace

std::vector<TextBeside> texts_beside(const ChatOptions& options, const PromptFields& fields) {
  std::vector<TextBeside> all;
  const auto add = [&](const std::string& named, const char* option, std::vector<std::string> usual) {
    if (!named.empty()) usual = {named};
    for (std::string& name : usual) {
      if (name != fields.prompt && name != fields.response) all.push_back({std::move(name), option});
    }
  };
  const bool prompts = !fields.prompt.empty();
  add(options.system, "--system",
      prompts ? std::vector<std::string>{"system", "instruction"} : std::vector<std::string>{"system"});
  if (prompts) add(options.context, "--context", {"input", "context"});
  return all;
}

Conversation read_conversation(std::string_view line, const ChatOptions& options,
                               const PromptFields& fields) {
  Json object = read_object(line);
  Conversation made{
      .messages = {}, .tools = take_tools(object, options), .variables = take_variables(object)};
  require_options(object, options, fields);
  if (!fields.prompt.empty()) {
    const std::string context = text_if_any(object, options.context);
    const std::string prompt = str(text_of(object, fields.prompt), context.empty() ? "" : "\n", context);
    made.messages = {{{"role", "user"}, {"content", prompt}},
                     {{"role", kAssistant}, {"content", text_of(object, fields.response)}}};
    put_system(object, options, made.messages);
    return made;
  }
  const auto messages = object.find(options.messages);
  if (messages == object.end())
    refuse(
        str("has no field '", printable(options.messages), "'; name the list of messages with --messages"));
  if (!messages->is_array())
    refuse(str("field '", printable(options.messages), "' is ", messages->type_name(),
               ", expected a list of messages"));
  if (messages->empty()) refuse(str("field '", printable(options.messages), "' has no messages"));
  made.messages = std::move(*messages);
  for (std::size_t i = 0; i < made.messages.size(); ++i)
    settle_message(made.messages[i], str("messages[", i, "]"), options);
  put_system(object, options, made.messages);
  return made;
}

Preference read_preference(std::string_view line, const ChatOptions& options) {
  Json object = read_object(line);
  Preference made{.prompt = {.messages = Json::array(),
                             .tools = take_tools(object, options),
                             .variables = take_variables(object)},
                  .chosen = messages_in(object, "chosen", kAssistant, options),
                  .rejected = messages_in(object, "rejected", kAssistant, options)};
  require_options(object, options, {});
  if (object["chosen"].is_string() != object["rejected"].is_string())
    refuse("one of 'chosen' and 'rejected' is a text and the other a list of messages");
  // Beside whole conversations a text only repeats how both begin (UltraFeedback).
  const bool repeats =
      object.value("prompt", Json()).is_string() && made.chosen.front()["role"] != kAssistant;
  if (object.contains("prompt") && !object["prompt"].is_null() && !repeats) {
    made.prompt.messages = messages_in(object, "prompt", "user", options);
  } else {
    if (object["chosen"].is_string()) refuse("has no field 'prompt', which two texts need");
    take_common(made);
  }
  for (const auto& [name, answer] : {std::pair("chosen", &made.chosen), {"rejected", &made.rejected}}) {
    if (answer->empty()) refuse(str("'", name, "' has no messages behind the prompt"));
    if (answer->front()["role"] != kAssistant)
      refuse(str("'", name, "' goes on with the role '", answer->front()["role"].get<std::string>(),
                 "' behind the prompt, expected assistant; the prompts of both must be the same"));
  }
  if (made.prompt.messages.empty()) refuse("has no prompt: 'chosen' and 'rejected' begin differently");
  put_system(object, options, made.prompt.messages);
  if (made.chosen == made.rejected)
    refuse("'chosen' and 'rejected' are the same: such a pair prefers nothing");
  return made;
}

void check_roles(const ChatOptions& options) {
  for (const std::string& pair : options.roles) {
    const auto sign = pair.find('=');
    if (sign == std::string::npos || sign == 0 || sign + 1 == pair.size())
      throw Error(Code::kUsage, "--role is '", printable(pair),
                  "', expected NAME=ROLE, such as gpt=assistant");
  }
}

}  // namespace echelon::data
