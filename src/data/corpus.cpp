#include "data/corpus.h"

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
#include "data/records.h"
#include "data/token_file_writer.h"

namespace echelon::data {
namespace {

/// Token ids of one batch's good documents, one behind the other.
struct Tokenised {
  struct Part {
    std::uint64_t record = 0;
    std::size_t tokens = 0;
  };
  std::vector<std::int32_t> ids;
  std::vector<Part> parts;
  std::uint64_t bytes = 0;
  std::uint64_t empty_records = 0;
  std::uint64_t bad_records = 0;
  std::string first_bad_record;
};

/// Which side a record goes to.
struct Split {
  double fraction = 0;
  std::uint64_t key = 0;
  std::optional<std::uint64_t> moved;  ///< the record that goes to the other side than its hash says
  bool cut = false;                    ///< one record only: its end is the validation part

  /// In [0, 1); below `fraction`: validation.
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
        .flags = kDocumentsEndWithEos | (tokenizer.bos_id() >= 0 ? kDocumentsStartWithBos : 0),
    };
    const fs::Path folder(options.output);
    train_ = std::make_unique<TokenFileWriter>(folder / "train.tok", file);
    if (split.fraction > 0) valid_ = std::make_unique<TokenFileWriter>(folder / "valid.tok", file);
  }

  void add(std::uint64_t record, std::span<const std::int32_t> ids) {
    const double place = split_.place(record);
    if (documents_ == 0 || place < lowest_.first) lowest_ = {place, record};
    if (documents_ == 0 || place > highest_.first) highest_ = {place, record};
    ++documents_;
    tokens_ += ids.size();
    if (split_.cut) return add_cut(ids);
    (valid_ && split_.is_validation(record) ? valid_ : train_)->add_document(ids);
  }

  /// How to split instead, when this way leaves one side empty.
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

/// One batch's work, on a thread with an encoder of its own.
Tokenised tokenise(RecordBatch batch, const PrepareOptions& options, const Tokenizer& tokenizer,
                   TextEncoder& encoder) {
  Tokenised out{.bytes = batch.bytes};
  for (Record& record : batch.records) {
    const Document document = open_document(record, options.format, options.field);
    if (!document.fault.empty()) {
      if (options.on_bad_record == BadRecords::kStop) throw bad_record_error(document);
      if (out.bad_records++ == 0) out.first_bad_record = document.fault;
      continue;
    }
    if (document.text.empty()) {
      ++out.empty_records;
      continue;
    }
    const std::size_t before = out.ids.size();
    if (tokenizer.bos_id() >= 0) out.ids.push_back(tokenizer.bos_id());
    encoder.encode(document.text, out.ids);
    out.ids.push_back(tokenizer.eos_id());
    out.parts.push_back({record.index, out.ids.size() - before});
  }
  return out;
}

/// Sends the whole corpus through the tokenizer into `writer`.
CorpusResult run_pass(const std::vector<SourceFile>& files, const PrepareOptions& options,
                      const Tokenizer& tokenizer, const ProgressCallback& progress, CorpusWriter& writer) {
  PrepareProgress now{.stage = "tokenising"};
  for (const auto& file : files) now.bytes_total += file.bytes;
  using Pipeline = OrderedPipeline<RecordBatch, Tokenised>;
  Pipeline pipeline(options.threads, [&]() -> Pipeline::Work {
    const std::shared_ptr<TextEncoder> encoder = tokenizer.make_encoder();
    return
        [&, encoder](RecordBatch batch) { return tokenise(std::move(batch), options, tokenizer, *encoder); };
  });
  RecordReader reader(files, options.format);
  CorpusResult result;
  const auto consume = [&](const Tokenised& batch) {
    std::span<const std::int32_t> ids(batch.ids);
    for (const auto& part : batch.parts) {
      writer.add(part.record, ids.first(part.tokens));
      ids = ids.subspan(part.tokens);
    }
    if (result.bad_records == 0) result.first_bad_record = batch.first_bad_record;
    result.bad_records += batch.bad_records;
    result.empty_records += batch.empty_records;
    now.bytes_done += batch.bytes;
    now.tokens = writer.tokens();
    progress(now);
  };
  pipeline.run([&] { return reader.next(); }, consume);
  return result;
}

}  // namespace

CorpusResult tokenise_corpus(const std::vector<SourceFile>& files, const PrepareOptions& options,
                             const Tokenizer& tokenizer, const ProgressCallback& progress,
                             const std::function<void()>& before_publishing) {
  if (tokenizer.eos_id() < 0) {
    throw Error(Code::kData, "the tokenizer has no EOS symbol to end documents with: use one that has");
  }
  Split split{.fraction = options.validation_fraction, .key = stream_key(options.seed, "validation split")};
  auto writer = std::make_unique<CorpusWriter>(options, tokenizer, split);
  CorpusResult result = run_pass(files, options, tokenizer, progress, *writer);
  if (writer->documents() == 0) {
    throw Error(Code::kData, str("the ", files.size(), " source files hold no text (", result.empty_records,
                                 " empty and ", result.bad_records, " unusable records",
                                 result.bad_records > 0 ? ", first " + result.first_bad_record : "", ")"));
  }
  // Only a handful of documents comes here, so a second pass is cheap and one rule serves corpora of any
  // size.
  if (const auto better = writer->better_split()) {
    writer.reset();  // removes its temporary files before new ones of the same name are made
    writer = std::make_unique<CorpusWriter>(options, tokenizer, *better);
    result = run_pass(files, options, tokenizer, progress, *writer);
  }
  before_publishing();
  result.train = writer->finish_train();
  result.valid = writer->finish_valid();
  return result;
}

}  // namespace echelon::data
