#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "data/chat/chat_options.h"

namespace echelon::data {

struct EncodedChat;
class ChatEncoder;

/// The findings of `prepare` about the mask of all conversations, those without a target included.
struct ChatAudit {
  std::uint64_t samples = 0;
  std::uint64_t samples_without_target = 0;  ///< left out of the token files
  std::uint64_t samples_all_target = 0;
  std::uint64_t samples_last_turn_only = 0;
  std::uint64_t tokens = 0;
  std::uint64_t trained_tokens = 0;
  std::uint64_t torn_tokens = 0;
  std::uint64_t typed_tokens = 0;
  std::uint64_t ends_trained = 0;    ///< turns whose end is trained
  std::uint64_t ends_left_out = 0;   ///< turns that the template ends behind what is trained
  std::set<std::int32_t> end_ids;    ///< tokens with which trained turns end
  std::string first_without_target;  ///< "chats.jsonl:3"
  std::string first_all_target;
  std::string first_left_out;

  /// `where`: file and line.
  void add(const EncodedChat& chat, const std::string& where);
  /// Adds the counts of conversations that come later.
  void add(const ChatAudit& other);

  [[nodiscard]] double trained_share() const;

  /// Throws Error(kData) for a mask that trains nothing, everything, too few of the conversations, or not the
  /// end of a turn that the template writes.
  void check(const ChatEncoder& encoder, const ChatOptions& options) const;

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  /// Throws nlohmann::json::exception.
  [[nodiscard]] static ChatAudit from_json(const nlohmann::json& json);
};

}  // namespace echelon::data
