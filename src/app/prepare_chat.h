#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "data/chat/chat_options.h"
#include "data/prepare/prepare.h"

/// The part of `echelon prepare` that is about conversations.
namespace echelon::app {

/// Options as they are given; `shown` counts conversations to print.
struct ChatArguments {
  std::string changed;
  std::string typed;
  std::uint64_t shown = 0;
};

/// The group of options of conversations in a command's help.
inline constexpr const char* kChats = "Chats";

/// Adds the options that determine how a template is rendered. `options` must outlive the command.
void add_template_options(CLI::App& command, data::ChatOptions& options);

/// Adds the options of --format chat. `options` and `arguments` must outlive the command.
void add_chat_options(CLI::App& command, data::ChatOptions& options, ChatArguments& arguments);

/// Puts the arguments' words into `options.chat`. Throws Error(kUsage) for options of chats with another
/// format.
void settle_chat_options(const CLI::App& command, const ChatArguments& arguments,
                         data::PrepareOptions& options);

/// The audit, for people.
void print_audit(const data::ChatAudit& audit);

/// The first `count` conversations of a token file with what is trained between brackets. Throws
/// Error(kData).
void print_chats(const std::string& token_file, const std::string& tokenizer, std::uint64_t count);

}  // namespace echelon::app
