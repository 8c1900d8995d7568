#include "data/prepare/corpus.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/kill_point.h"
#include "base/philox.h"
#include "base/str.h"
#include "data/ordered_pipeline.h"
#include "data/prepare/records.h"
#include "data/prepare/tokenized.h"
#include "data/tokens/token_file_writer.h"

namespace echelon::data {
namespace {

constexpr std::size_t kMostReasons = 20;

nlohmann::json to_json(const TokenFileMark& mark) {
  return {mark.tokens, mark.documents, mark.max_token, mark.checksum};
}

TokenFileMark mark_of(const nlohmann::json& json) {
  return {json.at(0), json.at(1), json.at(2), json.at(3)};
}

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
  /// Goes on from `state`, what save() returned, or null.
  CorpusWriter(const PrepareOptions& options, const Tokenizer& tokenizer, const Split& split,
               const PartialOutput& partial, const nlohmann::json& state)
      : tokenizer_(tokenizer), split_(split) {
    const TokenFileOptions file{
        .vocab_size = static_cast<std::uint64_t>(tokenizer.vocab_size()),
        .tokenizer_digest = tokenizer.digest(),
        .flags = options.chats()
                     ? kDocumentsAreChats | (options.preferences() ? kDocumentsArePreferences : 0)
                     : kDocumentsEndWithEos | (tokenizer.bos_id() >= 0 ? kDocumentsStartWithBos : 0) |
                           (options.pairs() ? kDocumentsArePairs : 0),
    };
    const auto make = [&](const char* name) {
      const auto mark = state.is_null() ? std::nullopt : std::optional(mark_of(state.at("files").at(name)));
      return std::make_unique<TokenFileWriter>(fs::Path(options.output) / name, file, partial.path(name),
                                               mark);
    };
    train_ = make("train.tok");
    if (split.fraction > 0) valid_ = make("valid.tok");
    if (state.is_null()) return;
    documents_ = state.at("documents");
    tokens_ = state.at("tokens");
    lowest_ = {split_.place(state.at("lowest")), state.at("lowest")};
    highest_ = {split_.place(state.at("highest")), state.at("highest")};
  }

  [[nodiscard]] nlohmann::json save() {
    nlohmann::json state{{"documents", documents_},
                         {"tokens", tokens_},
                         {"lowest", lowest_.second},
                         {"highest", highest_.second},
                         {"files", {{"train.tok", to_json(train_->save())}}}};
    if (valid_) state["files"]["valid.tok"] = to_json(valid_->save());
    return state;
  }

  /// `target`: of a pair; empty: `ids` is a document. `trained`: of chats, `target` included.
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
    const auto border = trained.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), trained.size()));
    writer.add_chat(ids, {trained.begin(), border});
    if (!target.empty()) writer.add_chat(target, {border, trained.end()});
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

/// Throws as require_few_bad_records() does.
void count_bad_records(const Tokenized& batch, const PrepareOptions& options, PrepareReport& result) {
  result.bad_records += batch.bad_records;
  for (const auto& [reason, count] : batch.bad_reasons) {
    const bool known = result.bad_reasons.size() < kMostReasons || result.bad_reasons.contains(reason);
    result.bad_reasons[known ? reason : "of another kind"] += count;
  }
  for (const std::string& example : batch.bad_examples) {
    if (result.bad_examples.size() < kMostExamples) result.bad_examples.push_back(example);
  }
  require_few_bad_records(options, result.bad_records, result.bad_examples);
}

/// A pass over the corpus: what is counted, and where it stands.
struct Pass {
  PrepareReport result{.chat = ChatAudit()};
  ReadPlace place;
  PrepareProgress now{.stage = "tokenizing"};

  [[nodiscard]] nlohmann::json save() const {
    const ChatAudit& chat = *result.chat;
    nlohmann::json state{
        {"file", place.file},
        {"rows", place.rows},
        {"record", place.record},
        {"bytes", now.bytes_done},
        {"chat", chat.to_json()},
        {"chat_firsts", {chat.first_without_target, chat.first_all_target, chat.first_left_out}}};
    visit_left_out(result, [&](const char* name, const auto& member) { state[name] = member; });
    return state;
  }

  /// `state`: what save() returned, or null. Throws nlohmann::json::exception.
  void restore(const nlohmann::json& state) {
    if (state.is_null()) return;
    place = {state.at("file"), state.at("rows"), state.at("record")};
    now.bytes_done = state.at("bytes");
    visit_left_out(result, [&](const char* name, auto& member) { state.at(name).get_to(member); });
    ChatAudit& chat = result.chat.emplace(ChatAudit::from_json(state.at("chat")));
    const nlohmann::json& firsts = state.at("chat_firsts");
    chat.first_without_target = firsts.at(0);
    chat.first_all_target = firsts.at(1);
    chat.first_left_out = firsts.at(2);
  }
};

/// Sends the corpus through the tokenizer into `writer`, from `pass.place` on. `save` may save both.
void run_pass(const std::vector<SourceFile>& files, const PrepareOptions& options, const Tokenizer& tokenizer,
              const ChatEncoder* chats, const ProgressCallback& progress, CorpusWriter& writer, Pass& pass,
              const std::function<void()>& save) {
  PrepareProgress& now = pass.now;
  PrepareReport& result = pass.result;
  now.bytes_total = 0;
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
  if (pass.place.rows > 0) progress({.stage = "reading up to that place"});
  reader.skip_to(pass.place);
  progress(now);
  const auto consume = [&](const Tokenized& batch) {
    std::span<const std::int32_t> ids(batch.ids);
    auto trained = batch.trained.begin();
    for (const auto& part : batch.parts) {
      const auto tokens =
          static_cast<std::ptrdiff_t>(batch.trained.empty() ? 0 : part.tokens + part.target_tokens);
      writer.add(part.record, ids.first(part.tokens), ids.subspan(part.tokens, part.target_tokens),
                 {trained, trained + tokens});
      ids = ids.subspan(part.tokens + part.target_tokens);
      trained += tokens;
    }
    result.chat->add(batch.chat);
    count_bad_records(batch, options, result);
    result.empty_records += batch.empty_records;
    now.bytes_done += batch.bytes;
    now.tokens = writer.tokens();
    pass.place = batch.end;
    progress(now);
    save();
  };
  pipeline.run([&] { return reader.next(); }, consume);
}

/// Takes up what an earlier start left, or begins with nothing.
std::unique_ptr<CorpusWriter> begin(const PrepareOptions& options, const Tokenizer& tokenizer,
                                    const Split& split, PartialOutput& partial,
                                    const ProgressCallback& progress, Pass& pass) {
  if (!partial.state().is_null()) {
    try {
      for (const auto& [name, mark] : partial.state().at("writer").at("files").items()) {
        // Killed when one of the files was published already.
        const fs::Path published = fs::Path(options.output) / name;
        if (std::error_code none; !std::filesystem::exists(partial.path(name), none))
          fs::rename(published, partial.path(name), Code::kData);
      }
      pass.restore(partial.state().at("pass"));
      auto writer =
          std::make_unique<CorpusWriter>(options, tokenizer, split, partial, partial.state().at("writer"));
      progress({.remark = str("resumed behind the first ", human_bytes(pass.now.bytes_done), " (",
                              human_count(writer->tokens()), " tokens), which an earlier start has done")});
      return writer;
    } catch (const std::exception& error) {
      progress({.remark = str("starting anew: what an earlier start left cannot be used: ", error.what()),
                .anew = true});
      pass = {};
      partial.save(nullptr);
    }
  }
  return std::make_unique<CorpusWriter>(options, tokenizer, split, partial, nullptr);
}

}  // namespace

void require_few_bad_records(const PrepareOptions& options, std::uint64_t count,
                             const std::vector<std::string>& examples) {
  if (options.max_bad_records == 0 || count <= options.max_bad_records) return;
  throw Error(Code::kData, "more than ", options.max_bad_records, " bad records (--max-bad-records), first ",
              examples.empty() ? "" : examples.front(), "; correct them or allow more");
}

PrepareReport tokenize_corpus(const std::vector<SourceFile>& files, const PrepareOptions& options,
                              const Tokenizer& tokenizer, const ChatEncoder* chats, PartialOutput& partial,
                              const ProgressCallback& progress,
                              const std::function<void()>& before_publishing) {
  if (chats == nullptr && tokenizer.eos_id() < 0) {
    throw Error(Code::kData,
                "the tokenizer has no EOS symbol, which ends each document: use a tokenizer that has one");
  }
  Split split{.fraction = options.validation_fraction, .key = stream_key(options.seed, "validation split")};
  Pass pass;
  auto writer = begin(options, tokenizer, split, partial, progress, pass);
  PrepareReport& result = pass.result;
  require_few_bad_records(options, result.bad_records, result.bad_examples);  // of an earlier start
  run_pass(files, options, tokenizer, chats, progress, *writer, pass, [&] {
    kill_point("prepare_batch");
    if (partial.is_due()) partial.save({{"pass", pass.save()}, {"writer", writer->save()}});
  });
  if (chats != nullptr) result.chat->check(*chats, options.chat);
  if (writer->documents() == 0) {
    throw Error(Code::kData, "the ", files.size(), " source files hold no text (", result.empty_records,
                " empty and ", result.bad_records, " unusable records",
                result.bad_records > 0 ? ", first " + result.bad_examples.front() : "", ")");
  }
  // Only tiny corpora get here, so a second pass is cheap, and one rule serves corpora of any size.
  if (const auto better = writer->better_split()) {
    if (better->cut && (options.pairs() || options.chats())) {
      const bool pair = options.pairs() || options.preferences();
      throw Error(Code::kData, "the sources hold one ", pair ? "pair" : "conversation",
                  ", which cannot both train and validate: use --validation-fraction 0");
    }
    partial.save(nullptr);  // the first pass is what is taken up
    pass = {};
    writer = std::make_unique<CorpusWriter>(options, tokenizer, *better, partial, nullptr);
    run_pass(files, options, tokenizer, chats, progress, *writer, pass, [] {});
  }
  result.kept_records = writer->documents();
  before_publishing();
  result.train = writer->finish_train();
  kill_point("prepare_train");
  result.valid = writer->finish_valid();
  if (chats == nullptr) result.chat.reset();
  return result;
}

}  // namespace echelon::data
