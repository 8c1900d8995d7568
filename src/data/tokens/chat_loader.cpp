#include "data/tokens/chat_loader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "data/data_identity.h"

namespace echelon {
namespace {

using Samples = std::vector<ChatLoader::Sample>;

/// What stays together: a conversation, or both answers of a pair.
struct Whole {
  ChatLoader::Sample place;
  std::uint64_t inputs = 0;  // the last token of a conversation predicts nothing, so it is none
};

template <class F>
void for_each_whole(const TokenFile& file, const F& each) {
  const bool pairs = file.header().holds_preferences();
  std::uint64_t number = 0;
  Whole whole;
  file.for_each_document([&](const TokenFile::Range& document) {
    const std::uint64_t inputs = document.end - document.begin - 1;
    if (pairs && inputs == 0) {
      throw Error(Code::kData, "token file '", file.path().string(), "': answer ", number,
                  " has one token, which predicts nothing: prepare the data again");
    }
    const bool rejected = pairs && number % 2 == 1;
    if (!rejected) whole = {{document, number}, 0};
    whole.place.tokens.end = document.end;
    whole.inputs += inputs;
    if (!pairs || rejected) each(whole);
    ++number;
  });
}

Samples pack(const TokenFile& file, std::int64_t seq_len, std::int64_t leave_out) {
  Samples samples;
  const auto room = static_cast<std::uint64_t>(seq_len);
  std::uint64_t inputs = 0;  // of the last sample
  std::uint64_t longest = 0;
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();  // of those that are too long
  std::int64_t too_long = 0;
  for_each_whole(file, [&](const Whole& whole) {
    const TokenFile::Range& chat = whole.place.tokens;
    const std::uint64_t size = whole.inputs;
    if (size > room) {
      ++too_long;
      longest = std::max(longest, size);
      shortest = std::min(shortest, size);
    } else if (size > 0 && !samples.empty() && samples.back().tokens.end == chat.begin &&
               inputs + size <= room) {
      samples.back().tokens.end = chat.end;
      inputs += size;
    } else if (size > 0) {
      samples.push_back(whole.place);
      inputs = size;
    }
  });
  const bool pairs = file.header().holds_preferences();
  const bool none_left = samples.empty() && too_long > 0;
  if (none_left || too_long > leave_out) {
    throw Error(Code::kData, "token file '", file.path().string(), "': ", too_long, " of ",
                file.document_count() / (pairs ? 2 : 1), pairs ? " pairs of answers" : " conversations",
                " are longer than data.seq_len (", seq_len, "), the longest takes ", longest,
                none_left
                    ? str(", the shortest ", shortest,
                          ": raise data.seq_len; with all of them left out there is nothing to train on")
                    : str(": raise data.seq_len, or leave them out with data.on_bad_record: skip and "
                          "data.max_bad_records: ",
                          too_long));
  }
  if (samples.empty())
    throw Error(Code::kData, "token file '", file.path().string(), "' has no ",
                pairs ? "pair of answers" : "conversation",
                " of more than one token, the least that predicts something: prepare the data again");
  return samples;
}

}  // namespace

ChatLoader::ChatLoader(TokenFile file, std::int64_t seq_len, std::optional<std::uint64_t> shuffle_seed,
                       std::int64_t leave_out)
    : file_(std::move(file)),
      documents_(file_),
      samples_(pack(file_, seq_len, leave_out)),
      order_(samples_.size(), shuffle_seed),
      reference_(file_.header().holds_preferences() ? file_.document_count() : 0) {
  identify(samples_.size(), data_identity(8, file_, seq_len, shuffle_seed),
           {seq_len, 0, reference_.empty() ? seq_len : 1});
}

void ChatLoader::append(std::int64_t sample, SampleBatch& batch) const {
  auto [tokens_here, document] = samples_[order_.at(static_cast<std::uint64_t>(sample))];
  const auto [begin, last] = tokens_here;
  std::vector<std::int64_t> ids(last - begin);
  std::vector<bool> trained;
  file_.read(begin, ids, &trained);
  const std::size_t before = batch.ids.size();
  std::size_t at = 0;
  for (const std::int64_t tokens : documents_.parts(begin, last)) {
    const std::size_t end = at + static_cast<std::size_t>(tokens);
    for (++at; at < end; ++at) {
      batch.ids.push_back(ids[at - 1]);
      batch.targets.push_back(trained[at] ? ids[at] : -1);
    }
    if (tokens > 1) batch.lengths.push_back(tokens - 1);
    if (!reference_.empty()) {
      batch.answers.push_back(static_cast<std::int64_t>(document));
      batch.reference.push_back(reference_[document]);
    }
    ++document;
  }
  batch.sample_lengths.push_back(static_cast<std::int64_t>(batch.ids.size() - before));
}

}  // namespace echelon
