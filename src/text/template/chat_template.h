#pragma once
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon {

/// The inputs of a rendered chat template.
struct ChatInput {
  const nlohmann::ordered_json& messages;   ///< a list of objects
  const nlohmann::ordered_json& tools;      ///< a list, or null
  const nlohmann::ordered_json& variables;  ///< an object: bos_token, enable_thinking...
  bool add_generation_prompt = false;
  std::optional<std::time_t> now{};  ///< what strftime_now() tells, in local time
};

/// Bytes of a rendered chat, from the end of the run before to `end`, which have one source.
struct ChatRun {
  std::size_t end;
  std::int32_t message;  ///< whose text it is, from 0; -1: written by the template; -2: text of tools
  bool generated;        ///< rendered between {% generation %} and {% endgeneration %}
};

struct RenderedChat {
  std::string text;
  std::vector<ChatRun> runs;  ///< they cover `text`
};

struct ChatTemplateLimits {
  std::uint64_t work = 100'000'000;     ///< steps and characters handled; about a second
  std::size_t characters = 16'000'000;  ///< of a rendered chat
  std::size_t template_bytes = 1'000'000;
};

/// A chat template of Hugging Face: the part of Jinja2 that docs/chats.md lists, in the environment of
/// transformers' apply_chat_template(). Text is equal to Jinja2's, or refused. Every method may run on
/// several threads at once.
class ChatTemplate {
 public:
  /// `origin`, a file's name, is for messages. Throws Error(kData) "<origin>:<line>: <why>".
  ChatTemplate(std::string_view text, std::string origin, const ChatTemplateLimits& limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Throws Error(kData) as the constructor does, for a conversation that the template refuses too, and
  /// Error(kUsage) where strftime_now() is called without `now`.
  [[nodiscard]] RenderedChat render(const ChatInput& input) const;

  /// Returns whether the template has generation tags.
  [[nodiscard]] bool marks_generation() const;

 private:
  struct Tree;
  std::string origin_;
  ChatTemplateLimits limits_;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace echelon
