#include "app/prove/sample_check.h"

#include <set>
#include <span>
#include <utility>

#include "app/prove/own_data.h"
#include "base/str.h"
#include "data/loader.h"

namespace echelon::app {
namespace {

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
