#include "app/prove/own_data.h"

#include "base/philox.h"
#include "base/str.h"
#include "data/tokens/token_file_writer.h"

namespace echelon::app {
namespace {

constexpr int kDocuments = 30;      // even: also of pairs
constexpr std::uint64_t kTurn = 4;  // tokens

}  // namespace

/// One document in five is as long as they get, one in five a single token.
std::vector<OwnDocument> own_documents(const DataOptions& data, const std::filesystem::path& path,
                                       std::int64_t vocabulary) {
  const bool chats = data.kind == DataKind::kChat;
  const auto longest = static_cast<std::uint64_t>(data.seq_len + (chats ? 1 : data.seq_len / 2));
  const std::uint64_t key = stream_key(1, path.filename().string());
  std::vector<OwnDocument> documents(kDocuments);
  for (std::uint64_t number = 0; number < kDocuments; ++number) {
    const auto drawn = philox4x32(key, number, 0);
    std::uint64_t length = 1 + drawn[0] % longest;
    if (drawn[1] % 5 == 0) length = longest;
    if (drawn[1] % 5 == 1) length = 1;
    for (std::uint64_t i = 0; i < length; ++i) {
      documents[number].ids.push_back(philox4x32(key, number, i + 1)[0] % vocabulary);
      // One conversation in eight is trained as a whole, one in eight not at all.
      const std::uint64_t turn = i / kTurn + drawn[2] % 8;
      documents[number].trained.push_back(!chats || drawn[3] % 8 == 0 || (drawn[3] % 8 > 1 && turn % 3 == 0));
    }
  }
  return documents;
}

void write_own_data(DataOptions& data, std::int64_t vocabulary, const std::filesystem::path& folder) {
  if (is_synthetic(data.kind)) return;
  std::size_t files = 0;
  const auto next_file = [&] {
    const std::filesystem::path path = folder / str("data-", files++, ".tok");
    TokenFileWriter writer(path, {.vocab_size = static_cast<std::uint64_t>(vocabulary),
                                  .tokenizer_digest = 0,
                                  .flags = gives_pairs(data.kind)         ? kDocumentsArePairs
                                           : data.kind == DataKind::kChat ? kDocumentsAreChats
                                                                          : 0});
    for (const OwnDocument& document : own_documents(data, path, vocabulary)) {
      const std::vector<std::int32_t> ids(document.ids.begin(), document.ids.end());
      writer.add_chat(ids, data.kind == DataKind::kChat ? document.trained : std::vector<bool>());
    }
    (void)writer.finish();
    return path.string();
  };
  if (data.mixture.empty()) data.path = next_file();
  for (auto& [path, weight] : data.mixture) path = next_file();
}

}  // namespace echelon::app
