#include "data/prepare/corpus.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "base/str.h"
#include "data/ordered_pipeline.h"
#include "data/prepare/records.h"
#include "data/tokens/token_file_writer.h"

namespace echelon::data {
namespace {

constexpr std::size_t kMostExamples = 10;  // of bad records

/// Concatenated token ids of one batch's good documents.
struct Tokenized {
  struct Part {
    std::uint64_t record = 0;
    std::size_t tokens = 0;
    std::size_t target_tokens = 0;  // of a pair
  };
  std::vector<std::int32_t> ids;
  std::vector<bool> trained;  // chats: of each id
  std::vector<Part> parts;
  std::uint64_t bytes = 0;
  std::uint64_t empty_records = 0;
  std::uint64_t bad_records = 0;
  std::vector<std::string> bad_examples;
  ChatAudit chat;

  void add_bad_record(const std::string& fault, const PrepareOptions& options) {
    if (options.on_bad_record == BadRecords::kStop) throw bad_record_error(fault);
    if (bad_records++ < kMostExamples) bad_examples.push_back(fault);
  }
};

/// The side that a record belongs to.
struct Split {
  double fraction = 0;
  std::uint64_t key = 0;
  std::optional<std::uint64_t> moved;  ///< a record that changes sides, against its hash
  bool cut = false;                    ///< one record only: its end is the validation part

  /// In [0, 1); below `fraction`: validation. By the number of the record, so that neither the number of
  /// threads nor the tokenizer changes who validates.
  [[nodiscard]] double place(std::uint64_t record) const {
    return static_cast<double>(philox4x32(key, record, 0)[0]) * 0x1p-32;
  }
  [[nodiscard]] bool is_validation(std::uint64_t record) const {
    return (place(record) < fraction) != (moved == record);
  }
};

class CorpusWriter {
 public:
  CorpusWriter(const PrepareOptions& options, const Tokenizer& tokenizer, const Split& split)
      : tokenizer_(tokenizer), split_(split) {
    const TokenFileOptions file{
        .vocab_size = static_cast<std::uint64_t>(tokenizer.vocab_size()),
        .tokenizer_digest = tokenizer.digest(),
        .flags = options.chats()
                     ? kDocumentsAreChats
                     : kDocumentsEndWithEos | (tokenizer.bos_id() >= 0 ? kDocumentsStartWithBos : 0) |
                           (options.pairs() ? kDocumentsArePairs : 0),
    };
    const fs::Path folder(options.output);
    train_ = std::make_unique<TokenFileWriter>(folder / "train.tok", file);
    if (split.fraction > 0) valid_ = std::make_unique<TokenFileWriter>(folder / "valid.tok", file);
  }

  /// `target`: of a pair; empty: `ids` is a document. `trained`: of a chat.
  void add(std::uint64_t record, std::span<const std::int32_t> ids, std::span<const std::int32_t> target,
           const std::vector<bool>& trained) {
    const double place = split_.place(record);
    // If all records are on one side, one of these two is nearest to the border; see better_split().
    if (documents_ == 0 || place < lowest_.first) lowest_ = {place, record};
    if (documents_ == 0 || place > highest_.first) highest_ = {place, record};
    ++documents_;
    tokens_ += ids.size() + target.size();
    if (split_.cut) return add_cut(ids);
    TokenFileWriter& writer = valid_ && split_.is_validation(record) ? *valid_ : *train_;
    writer.add_chat(ids, trained);
    if (!target.empty()) writer.add_document(target);
  }

  /// The split to use instead if this one leaves one side empty.
  [[nodiscard]] std::optional<Split> better_split() const {
    if (documents_ == 0 || !valid_ || (train_->document_count() > 0 && valid_->document_count() > 0))
      return {};
    Split other = split_;
    other.cut = documents_ == 1;
    other.moved = valid_->document_count() == 0 ? lowest_.second : highest_.second;
    return other;
  }

  [[nodiscard]] std::uint64_t documents() const { return documents_; }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] PreparedFile finish_train() { return summary(train_->finish()); }
  [[nodiscard]] PreparedFile finish_valid() { return valid_ ? summary(valid_->finish()) : PreparedFile{}; }

 private:
  static PreparedFile summary(const TokenFileHeader& header) {
    return {header.token_count, header.document_count, header.file_bytes(), header.header_crc};
  }

  void add_cut(std::span<const std::int32_t> ids) {
    const auto wanted =
        static_cast<std::size_t>(std::lround(split_.fraction * static_cast<double>(ids.size())));
    const auto [begin, end] = std::pair(ids.begin(), ids.end());
    // At least one token on each side.
    const auto border = end - static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(wanted, 1, ids.size() - 1));
    std::vector<std::int32_t> train(begin, border);
    train.push_back(tokenizer_.eos_id());
    std::vector<std::int32_t> valid;
    if (tokenizer_.bos_id() >= 0) valid.push_back(tokenizer_.bos_id());
    valid.insert(valid.end(), border, end);
    train_->add_document(train);
    valid_->add_document(valid);
  }

  const Tokenizer& tokenizer_;
  Split split_;
  std::unique_ptr<TokenFileWriter> train_;
  std::unique_ptr<TokenFileWriter> valid_;
  std::pair<double, std::uint64_t> lowest_;
  std::pair<double, std::uint64_t> highest_;
  std::uint64_t documents_ = 0;
  std::uint64_t tokens_ = 0;
};

/// Processes one batch, on a thread with its own encoder.
Tokenized tokenize(const RecordBatch& batch, const PrepareOptions& options, const Tokenizer& tokenizer,
                   TextEncoder& encoder) {
  Tokenized out{.bytes = batch.bytes};
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
      out.add_bad_record(document.fault, options);
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

/// Renders a batch's conversations and gives each its ids and its mask.
Tokenized tokenize_chats(const RecordBatch& batch, const PrepareOptions& options, const ChatEncoder& chats,
                         TextEncoder& encoder) {
  Tokenized out{.bytes = batch.bytes};
  for (const Record& record : batch.records) {
    const std::string where = place_of(record);
    try {
      if (!record.row.fault.empty()) throw Error(Code::kData, record.row.fault);
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
      out.add_bad_record(str(where, ": ", error.what()), options);
    }
  }
  return out;
}

/// Throws Error(kData) when there are more of them than options.max_bad_records.
void count_bad_records(const Tokenized& batch, const PrepareOptions& options, CorpusResult& result) {
  result.bad_records += batch.bad_records;
  for (const std::string& example : batch.bad_examples) {
    if (result.bad_examples.size() < kMostExamples) result.bad_examples.push_back(example);
  }
  if (options.max_bad_records == 0 || result.bad_records <= options.max_bad_records) return;
  throw Error(Code::kData,
              str("more than ", options.max_bad_records, " bad records (--max-bad-records), first ",
                  result.bad_examples.front(), "; correct them or allow more"));
}

/// Sends the whole corpus through the tokenizer into `writer`.
CorpusResult run_pass(const std::vector<SourceFile>& files, const PrepareOptions& options,
                      const Tokenizer& tokenizer, const ChatEncoder* chats, const ProgressCallback& progress,
                      CorpusWriter& writer) {
  PrepareProgress now{.stage = "tokenising"};
  for (const auto& file : files) now.bytes_total += file.bytes;
  using Pipeline = OrderedPipeline<RecordBatch, Tokenized>;
  Pipeline pipeline(options.threads, [&]() -> Pipeline::Work {
    const std::shared_ptr<TextEncoder> encoder = tokenizer.make_encoder();
    return [&, encoder](const RecordBatch& batch) {
      return chats != nullptr ? tokenize_chats(batch, options, *chats, *encoder)
                              : tokenize(batch, options, tokenizer, *encoder);
    };
  });
  RecordReader reader(files, options);
  CorpusResult result;
  const auto consume = [&](const Tokenized& batch) {
    std::span<const std::int32_t> ids(batch.ids);
    auto trained = batch.trained.begin();
    for (const auto& part : batch.parts) {
      const auto tokens = static_cast<std::ptrdiff_t>(batch.trained.empty() ? 0 : part.tokens);
      writer.add(part.record, ids.first(part.tokens), ids.subspan(part.tokens, part.target_tokens),
                 {trained, trained + tokens});
      ids = ids.subspan(part.tokens + part.target_tokens);
      trained += tokens;
    }
    result.chat.add(batch.chat);
    count_bad_records(batch, options, result);
    result.empty_records += batch.empty_records;
    now.bytes_done += batch.bytes;
    now.tokens = writer.tokens();
    progress(now);
  };
  pipeline.run([&] { return reader.next(); }, consume);
  return result;
}

}  // namespace

CorpusResult tokenize_corpus(const std::vector<SourceFile>& files, const PrepareOptions& options,
                             const Tokenizer& tokenizer, const ChatEncoder* chats,
                             const ProgressCallback& progress,
                             const std::function<void()>& before_publishing) {
  if (chats == nullptr && tokenizer.eos_id() < 0) {
    throw Error(Code::kData,
                "the tokenizer has no EOS symbol, which ends each document: use a tokenizer that has one");
  }
  Split split{.fraction = options.validation_fraction, .key = stream_key(options.seed, "validation split")};
  auto writer = std::make_unique<CorpusWriter>(options, tokenizer, split);
  CorpusResult result = run_pass(files, options, tokenizer, chats, progress, *writer);
  if (chats != nullptr) result.chat.check(*chats, options.chat);
  if (writer->documents() == 0) {
    throw Error(Code::kData,
                str("the ", files.size(), " source files hold no text (", result.empty_records, " empty and ",
                    result.bad_records, " unusable records",
                    result.bad_records > 0 ? ", first " + result.bad_examples.front() : "", ")"));
  }
  // Only tiny corpora get here, so a second pass is cheap, and one rule serves corpora of any size.
  if (const auto better = writer->better_split()) {
    if (better->cut && (options.pairs() || options.chats())) {
      throw Error(Code::kData, str("the sources hold one ", options.pairs() ? "pair" : "conversation",
                                   ", which cannot both train and validate: use --validation-fraction 0"));
    }
    writer.reset();  // removes its temporary files before new ones of the same name are made
    writer = std::make_unique<CorpusWriter>(options, tokenizer, *better);
    result = run_pass(files, options, tokenizer, chats, progress, *writer);
  }
  before_publishing();
  result.train = writer->finish_train();
  result.valid = writer->finish_valid();
  return result;
}

}  // namespace echelon::data
