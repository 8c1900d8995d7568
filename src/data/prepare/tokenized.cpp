#include "data/prepare/tokenized.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "base/str.h"

namespace echelon::data {
namespace {

/// `fault` with N for its numbers (not the 8 of UTF-8) and without details, so that equal faults have one
/// reason.
std::string reason_of(std::string_view fault) {
  std::string reason;
  bool in_number = false;
  for (const char c : fault.substr(0, fault.find(": "))) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && in_number) continue;
    in_number = digit && reason.ends_with(' ');
    reason += in_number ? 'N' : c;
  }
  return reason;
}

}  // namespace

void Tokenized::add_bad_record(const std::string& where, const std::string& fault,
                               const PrepareOptions& options) {
  const std::string all = str(where, ": ", fault);
  if (options.on_bad_record == BadRecords::kStop) throw bad_record_error(all);
  if (bad_records++ < kMostExamples) bad_examples.push_back(all);
  ++bad_reasons[reason_of(fault)];
}

Tokenized tokenize(const RecordBatch& batch, const PrepareOptions& options, const Tokenizer& tokenizer,
                   TextEncoder& encoder) {
  Tokenized out{.bytes = batch.bytes, .end = batch.end};
  const auto append = [&](const std::string& text) {
    const std::size_t before = out.ids.size();
    if (tokenizer.bos_id() >= 0) out.ids.push_back(tokenizer.bos_id());
    encoder.encode(text, out.ids);
    out.ids.push_back(tokenizer.eos_id());
    return out.ids.size() - before;
  };
  for (const Record& record : batch.records) {
    const Document document = open_document(record, options);
    if (!document.fault.empty()) {
      out.add_bad_record(place_of(record), document.fault, options);
      continue;
    }
    if (document.text.empty()) {
      ++out.empty_records;
      continue;
    }
    const std::size_t tokens = append(document.text);
    out.parts.push_back({record.index, tokens, options.pairs() ? append(document.target) : 0});
  }
  return out;
}

namespace {

/// The tokens of one answer, of which those of the prompt are not trained.
EncodedChat encode_answer(const Preference& preference, const std::string& name,
                          const nlohmann::ordered_json& answer, const std::vector<std::int32_t>& prompt,
                          const ChatEncoder& chats, TextEncoder& encoder) {
  Conversation whole = preference.prompt;
  for (const auto& message : answer) whole.messages.push_back(message);
  EncodedChat chat = chats.encode(whole, encoder, preference.prompt.messages.size());
  const auto most = static_cast<std::ptrdiff_t>(std::min(prompt.size(), chat.ids.size()));
  const auto border = std::mismatch(prompt.begin(), prompt.begin() + most, chat.ids.begin()).first;
  std::fill_n(chat.trained.begin(), border - prompt.begin(), false);
  // The first token is not predicted.
  chat.trained_tokens =
      static_cast<std::uint64_t>(std::count(chat.trained.begin() + 1, chat.trained.end(), true));
  if (chat.trained_tokens == 0)
    throw Error(Code::kData, "nothing of '", name, "' is trained: it has no turn of the assistant");
  return chat;
}

}  // namespace

void Tokenized::add_preference(const Record& record, const PrepareOptions& options, const ChatEncoder& chats,
                               TextEncoder& encoder) {
  const Preference preference = read_preference(record.row.text, options.chat);
  const std::vector<std::int32_t> prompt = chats.encode_prompt(preference.prompt, encoder);
  const EncodedChat chosen = encode_answer(preference, "chosen", preference.chosen, prompt, chats, encoder);
  const EncodedChat rejected =
      encode_answer(preference, "rejected", preference.rejected, prompt, chats, encoder);
  if (chosen.ids == rejected.ids)
    throw Error(Code::kData, "'chosen' and 'rejected' have the same tokens: such a pair prefers nothing");
  for (const EncodedChat* answer : {&chosen, &rejected}) {
    chat.add(*answer, place_of(record));
    ids.insert(ids.end(), answer->ids.begin(), answer->ids.end());
    trained.insert(trained.end(), answer->trained.begin(), answer->trained.end());
  }
  parts.push_back({record.index, chosen.ids.size(), rejected.ids.size()});
}

Tokenized tokenize_chats(const RecordBatch& batch, const PrepareOptions& options, const ChatEncoder& chats,
                         TextEncoder& encoder) {
  Tokenized out{.bytes = batch.bytes, .end = batch.end};
  for (const Record& record : batch.records) {
    const std::string where = place_of(record);
    try {
      if (!record.row.fault.empty()) throw Error(Code::kData, record.row.fault);
      if (options.preferences()) {
        out.add_preference(record, options, chats, encoder);
        continue;
      }
      const Conversation conversation =
          read_conversation(record.row.text, options.chat, {options.input, options.target});
      const EncodedChat chat = chats.encode(conversation, encoder);
      out.chat.add(chat, where);
      if (chat.trained_tokens == 0) continue;
      out.ids.insert(out.ids.end(), chat.ids.begin(), chat.ids.end());
      out.trained.insert(out.trained.end(), chat.trained.begin(), chat.trained.end());
      out.parts.push_back({record.index, chat.ids.size(), 0});
    } catch (const Error& error) {
      if (error.code() != Code::kData) throw error.in(where);
      out.add_bad_record(where, error.what(), options);
    }
  }
  return out;
}

}  // namespace echelon::data
