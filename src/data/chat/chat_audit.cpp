#include "data/chat/chat_audit.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "data/chat/chat_encoder.h"
#include "data/prepared.h"

namespace echelon::data {
namespace {

constexpr std::array<std::pair<const char*, std::uint64_t ChatAudit::*>, 10> kCounts{{
    {"samples", &ChatAudit::samples},
    {"samples_without_target", &ChatAudit::samples_without_target},
    {"samples_all_target", &ChatAudit::samples_all_target},
    {"samples_last_turn_only", &ChatAudit::samples_last_turn_only},
    {"tokens", &ChatAudit::tokens},
    {"trained_tokens", &ChatAudit::trained_tokens},
    {"torn_tokens", &ChatAudit::torn_tokens},
    {"special_tokens_in_text", &ChatAudit::typed_tokens},
    {"turn_ends_trained", &ChatAudit::ends_trained},
    {"turn_ends_left_out", &ChatAudit::ends_left_out},
}};

void keep_first(std::string& first, const std::string& other) {
  if (first.empty()) first = other;
}

}  // namespace

void ChatAudit::add(const EncodedChat& chat, const std::string& where) {
  ChatAudit one{
      .samples = 1,
      .samples_without_target = chat.trained_tokens == 0 ? 1U : 0U,
      .samples_all_target = chat.trained_tokens > 0 && chat.trained_tokens == chat.ids.size() ? 1U : 0U,
      .samples_last_turn_only = chat.last_turn_only ? 1U : 0U,
      .tokens = chat.ids.size(),
      .trained_tokens = chat.trained_tokens,
      .torn_tokens = chat.torn_tokens,
      .typed_tokens = chat.typed_tokens,
      .ends_trained = chat.ends.trained,
      .ends_left_out = chat.ends.left_out,
      .end_ids = {chat.end_ids.begin(), chat.end_ids.end()}};
  if (one.samples_without_target > 0) one.first_without_target = where;
  if (one.samples_all_target > 0) one.first_all_target = where;
  if (one.ends_left_out > 0) one.first_left_out = where;
  add(one);
}

void ChatAudit::add(const ChatAudit& other) {
  for (const auto& [name, count] : kCounts) this->*count += other.*count;
  end_ids.insert(other.end_ids.begin(), other.end_ids.end());
  keep_first(first_without_target, other.first_without_target);
  keep_first(first_all_target, other.first_all_target);
  keep_first(first_left_out, other.first_left_out);
}

double ChatAudit::trained_share() const {
  return tokens == 0 ? 0 : static_cast<double>(trained_tokens) / static_cast<double>(tokens);
}

void ChatAudit::check(const ChatEncoder& encoder, const ChatOptions& options) const {
  const std::string& origin = encoder.source().origin;
  const auto refuse = [](const std::string& text) { throw Error(Code::kData, text); };
  const std::string tags = encoder.marks_generation()
                               ? "what stands between its generation tags"
                               : "what each turn of the assistant adds to the text before it";
  const double most = options.max_without_target * static_cast<double>(samples);
  if (trained_tokens == 0 && samples > 0) {
    refuse(str("the mask trains nothing: none of ", samples,
               " conversations has a turn of the role 'assistant' (first ", first_without_target,
               "); say how the file calls it with --role NAME=assistant, or correct '", origin,
               "', of which is trained ", tags));
  }
  if (static_cast<double>(samples_all_target) > most) {
    refuse(str("the mask trains everything, prompts too, in ", samples_all_target, " of ", samples,
               " conversations (first ", first_all_target, "): correct '", origin, "', of which is trained ",
               tags));
  }
  if (ends_left_out > 0) {
    refuse(str("the end of a turn is not trained: in ", ends_left_out, " of ", ends_left_out + ends_trained,
               " turns (first ", first_left_out,
               ") the token that ends it stands behind what is trained, so the "
               "model would never learn to stop; correct '",
               origin, "', of which is trained ", tags));
  }
  if (static_cast<double>(samples_without_target) > most) {
    refuse(str(samples_without_target, " of ", samples, " conversations train nothing (first ",
               first_without_target, "), more than --max-without-target ", options.max_without_target,
               " of them: they have no turn of the assistant; correct them or allow more"));
  }
}

nlohmann::ordered_json ChatAudit::to_json() const {
  nlohmann::ordered_json json;
  json["trained_share"] = trained_share();
  json["end_of_turn_trained"] = ends_trained > 0 && ends_left_out == 0;
  for (const auto& [name, count] : kCounts) json[name] = this->*count;
  json[kTurnEndIds] = end_ids;
  return json;
}

ChatAudit ChatAudit::from_json(const nlohmann::json& json) {
  ChatAudit audit;
  for (const auto& [name, count] : kCounts) audit.*count = json.at(name);
  audit.end_ids = json.at(kTurnEndIds).get<std::set<std::int32_t>>();
  return audit;
}

}  // namespace echelon::data
