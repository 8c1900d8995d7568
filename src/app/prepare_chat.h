#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "data/chat/chat_audit.h"

/// The part of `echelon prepare` that is about conversations.
namespace echelon::app {

/// The group of options of conversations in a command's help.
inline constexpr const char* kChats = "Chats";

/// Adds the options that determine how a template is rendered. `options` must outlive the command.
void add_template_options(CLI::App& command, data::ChatOptions& options);

/// Adds the options of --format chat. `shown` counts conversations to print. Both must outlive the command.
void add_chat_options(CLI::App& command, data::ChatOptions& options, std::uint64_t& shown);

/// Throws Error(kUsage) if one of these options was given. `needed`: what they need.
void refuse_chat_options(const CLI::App& command, const char* needed);

/// The audit, for people.
void print_audit(const data::ChatAudit& audit);

/// The first `count` conversations of a token file with what is trained between brackets. Throws
/// Error(kData).
void print_chats(const std::string& token_file, const std::string& tokenizer, std::uint64_t count);

}  // namespace echelon::app
