#include "app/prepare_chat.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "data/tokens/token_file.h"
#include "text/tokenizer.h"

namespace echelon::app {
namespace {

// The brackets of mathematics, which hardly stand in a text.
constexpr const char* kTrained = "⟦";
constexpr const char* kTrainedEnd = "⟧";

void print_chat(const TokenFile& file, std::uint64_t number, const Tokenizer& tokenizer) {
  const TokenFile::Range range = file.document(number);
  std::vector<std::int64_t> ids(range.end - range.begin);
  std::vector<bool> trained;
  file.read(range.begin, ids, &trained);
  std::cout << "--- conversation " << number + 1 << " of " << file.path().filename().string() << "\n";
  for (std::size_t at = 0; at < ids.size();) {
    const bool marked = trained[at];
    std::string text;
    for (; at < ids.size() && trained[at] == marked; ++at)
      text += tokenizer.piece_of(static_cast<std::int32_t>(ids[at]));
    std::cout << (marked ? kTrained : "") << terminal_text(text) << (marked ? kTrainedEnd : "");
  }
  std::cout << "\n";
}

}  // namespace

void add_template_options(CLI::App& command, data::ChatOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return command.add_option(name, value, text)->group(kChats);
  };
  add("--chat-template", options.template_file,
      "Template to render with (default: that of the tokenizer's folder)")
      ->type_name("FILE");
  add("--template-variable", options.variables,
      "Tell the template a value, such as enable_thinking=false; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  add("--date", options.date, "The day that a template writes (strftime_now)")->type_name("YYYY-MM-DD");
}

void add_chat_options(CLI::App& command, data::ChatOptions& options, std::uint64_t& shown) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return command.add_option(name, value, text)->group(kChats);
  };
  add_template_options(command, options);
  add("--messages", options.messages, "Field with the list of messages")
      ->type_name("FIELD")
      ->capture_default_str();
  add("--tools", options.tools, "Field with the list of tools")->type_name("FIELD")->capture_default_str();
  add("--system", options.system, "Field with the text of a system message; lines may lack it")
      ->type_name("FIELD");
  add("--context", options.context,
      "--input: field with a text that belongs behind the prompt, such as Alpaca's input; lines may lack it")
      ->type_name("FIELD");
  add("--role-key", options.role_key, "Key of a message's role")->type_name("KEY")->capture_default_str();
  add("--content-key", options.content_key, "Key of a message's text")
      ->type_name("KEY")
      ->capture_default_str();
  add("--role", options.roles, "What the file calls a role, such as gpt=assistant; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=ROLE");
  add("--end-of-turn", options.ends, "A token that ends a turn, beside those of the model; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TOKEN");
  add_choice(command, "--changed-turns", options.changed,
             "Where a template writes earlier turns in another way: refuse, or train the last turn (default: "
             "refuse)")
      ->group(kChats);
  add_choice(command, "--special-in-text", options.typed,
             "A special token in a message: refuse, escape (it is text) or allow (default: refuse)")
      ->group(kChats);
  add("--max-without-target", options.max_without_target, "Stop when more of the conversations train nothing")
      ->type_name("SHARE")
      ->capture_default_str();
  add("--show", shown, "Print this many conversations with what is trained in brackets")->type_name("N");
}

void refuse_chat_options(const CLI::App& command, const char* needed) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() == kChats && option->count() > 0)
      throw Error(Code::kUsage, option->get_name(), " needs ", needed);
  }
}

void print_audit(const data::ChatAudit& audit) {
  std::cout << "trained: " << fixed(100 * audit.trained_share(), 1) << " % of " << human_count(audit.tokens)
            << " tokens, in " << human_count(audit.samples - audit.samples_without_target) << " of "
            << human_count(audit.samples) << " conversations\n";
  if (audit.samples_all_target > 0)
    std::cout << "prompts trained too: " << audit.samples_all_target << " conversations\n";
  if (audit.samples_last_turn_only > 0)
    std::cout << "only the last turn trained: " << audit.samples_last_turn_only << " conversations\n";
  if (audit.ends_trained > 0) {
    std::cout << "the end of a turn is trained\n";
  } else {
    std::cout
        << "warning: no token that ends a turn is known in this template, so the model may not learn to "
           "stop; name one with --end-of-turn\n";
  }
  if (audit.torn_tokens > 0)
    std::cout
        << "warning: " << audit.torn_tokens
        << " trained tokens begin or end in text that is not trained: a prompt is then tokenized in another "
           "way\n";
  if (audit.typed_tokens > 0) std::cout << "special tokens in messages: " << audit.typed_tokens << "\n";
}

void print_chats(const std::string& token_file, const std::string& tokenizer, std::uint64_t count) {
  const TokenFile file(token_file);
  const auto known = Tokenizer::load(tokenizer);
  for (std::uint64_t i = 0; i < std::min(count, file.document_count()); ++i) print_chat(file, i, *known);
}

}  // namespace echelon::app
