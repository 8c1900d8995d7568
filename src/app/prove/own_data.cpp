#include "app/prove/own_data.h"

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "base/str.h"
#include "data/loader.h"
#include "data/tokens/token_file_writer.h"

namespace echelon::app {
namespace {

constexpr int kDocuments = 30;      // even: also of pairs
constexpr std::uint64_t kTurn = 4;  // tokens

/// A text of a file.
struct OwnDocument {
  std::vector<std::int64_t> ids;
  std::vector<bool> trained;  ///< of each; all but in a conversation
};

/// The documents of the file that is written as `path`; source and target of pairs one after the other.
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

using Ids = std::vector<std::int64_t>;
using Place = std::pair<std::size_t, std::size_t>;  // document and first token

/// Returns whether `ids` stand in the document from token `at` on, and `targets` are the trained tokens
/// behind them: none behind its last one.
bool stands_at(const OwnDocument& document, std::size_t at, std::span<const std::int64_t> ids,
               std::span<const std::int64_t> targets) {
  if (at + ids.size() > document.ids.size()) return false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t next = at + i + 1;
    const bool counts = next < document.ids.size() && document.trained[next];
    if (document.ids[at + i] != ids[i] || targets[i] != (counts ? document.ids[next] : -1)) return false;
  }
  return true;
}

/// Where a sequence of a sample comes from; no document if it comes from none.
Place place_of(const std::vector<OwnDocument>& documents, std::span<const std::int64_t> ids,
               std::span<const std::int64_t> targets, const DataOptions& data) {
  const bool whole = data.kind == DataKind::kChat;  // but for the last token, which predicts nothing
  const bool from_start = whole || data.packing == Packing::kPad;
  for (std::size_t number = 0; number < documents.size(); ++number) {
    if (whole && documents[number].ids.size() != ids.size() + 1) continue;
    const std::size_t last = from_start ? 0 : documents[number].ids.size() - 1;
    for (std::size_t at = 0; at <= last; ++at) {
      if (stands_at(documents[number], at, ids, targets)) return {number, at};
    }
  }
  return {documents.size(), 0};
}

/// The document as a source or a target: cut to `most` tokens, of which the last one stays its own.
Ids cut(Ids document, std::int64_t most) {
  const auto length = static_cast<std::size_t>(most);
  if (document.size() <= length) return document;
  const std::int64_t last = document.back();
  document.resize(length);
  document.back() = last;
  return document;
}

bool is_pair(const SampleBatch& sample, const std::vector<OwnDocument>& documents, const DataOptions& data,
             std::set<Place>& seen) {
  for (std::size_t pair = 0; 2 * pair + 1 < documents.size(); ++pair) {
    if (sample.ids == cut(documents[2 * pair].ids, data.seq_len) &&
        sample.targets == cut(documents[2 * pair + 1].ids, data.target_len))
      return seen.insert({pair, 0}).second;
  }
  return false;
}

bool is_text(const SampleBatch& sample, const std::vector<OwnDocument>& documents, const DataOptions& data,
             std::set<Place>& seen) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < sample.lengths.size(); ++i) {
    const auto length = static_cast<std::size_t>(sample.lengths[i]);
    const Place place = place_of(documents, std::span(sample.ids).subspan(at, length),
                                 std::span(sample.targets).subspan(at, length), data);
    if (place.first == documents.size()) return false;
    // A single token stands in many places, and says nothing of its own. A window may begin within a document
    // and end within another.
    const bool once = i == 0 || data.kind == DataKind::kChat;
    if (once && length > 2 && !seen.insert(place).second) return false;
    at += length;
  }
  return at == sample.ids.size();
}

}  // namespace

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

Difference of_samples(const Recipe& recipe) {
  const DataOptions& data = recipe.data;
  Difference wrong{"samples", 0, 0, "none"};
  if (!data.mixture.empty()) return wrong;
  std::vector<OwnDocument> documents = own_documents(data, data.path, recipe.model.vocab_size);
  if (data.packing == Packing::kStream && data.kind == DataKind::kTokens) {
    OwnDocument all;
    for (const OwnDocument& document : documents)
      all.ids.insert(all.ids.end(), document.ids.begin(), document.ids.end());
    all.trained.assign(all.ids.size(), true);
    documents = {all};
  }
  const auto loader = make_loader(data, recipe.model.vocab_size, static_cast<std::uint64_t>(recipe.run.seed));
  const std::int64_t epoch = loader->samples_per_epoch();
  std::set<Place> seen;
  for (std::int64_t number = 0; number < 2 * epoch; ++number) {
    if (number == epoch) seen.clear();
    const SampleBatch sample = loader->read(number, 1);
    const bool right = gives_pairs(data.kind) ? is_pair(sample, documents, data, seen)
                                              : is_text(sample, documents, data, seen);
    if (!right && wrong.value++ == 0) wrong.where = str("sample ", number);
  }
  return wrong;
}

}  // namespace echelon::app
