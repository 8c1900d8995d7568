#include "data/prepare/prepare.h"

#include <filesystem>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/kill_point.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "data/chat/chat_encoder.h"
#include "data/prepare/corpus.h"
#include "data/prepare/partial_output.h"
#include "data/prepare/prepare_manifest.h"
#include "data/prepare/sources.h"
#include "data/prepare/text_format.h"
#include "text/special_ids.h"
#include "text/tokenizer.h"
#include "text/tokenizer_digest.h"
#include "text/tokenizer_folder.h"
#include "text/tokenizer_training.h"

namespace echelon::data {
namespace {

/// Special tokens are found in a text by a tokenizer.json alone.
void settle_chat_tokenizer(PrepareOptions& options) {
  std::error_code ignored;
  const fs::Path json = fs::Path(options.tokenizer) / "tokenizer.json";
  options.tokenizer =
      (std::filesystem::exists(json, ignored) ? json : tokenizer_file(options.tokenizer)).string();
  if (tokenizer_file_name(read_tokenizer_model(options.tokenizer)) == "tokenizer.json") return;
  throw Error(Code::kData, "'", options.tokenizer,
              "' is a sentencepiece model, which does not find the special tokens of a chat in "
              "its text: name a tokenizer.json of the model");
}

/// The tokenizer's file and, where a model lies beside it that ends text in another way, that end.
void settle_tokenizer(PrepareOptions& options, const ProgressCallback& progress) {
  if (options.tokenizer.empty()) return;
  if (options.chats())
    settle_chat_tokenizer(options);
  else
    options.tokenizer = tokenizer_file(options.tokenizer).string();
  const fs::Path file = options.tokenizer;
  const TokenizerFolder folder(file);
  folder.require_same_tokens(read_tokenizer_model(file));
  if (options.chats()) return;
  const auto tokenizer = Tokenizer::load(file);
  folder.require_same_begin(*tokenizer);
  const std::int32_t end = document_end(folder.special_ids(), *tokenizer);
  if (end == tokenizer->eos_id()) return;
  options.end_id = end;
  progress({.remark = str("documents end with id ", end, " (", printable(tokenizer->name_of(end)),
                          "), as the model in '", folder.path().string(), "' ends text")});
}

std::optional<ChatSource> chat_source_of(const PrepareOptions& options) {
  if (!options.chats()) return {};
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  ChatSource source = load_chat_source(options.chat, TokenizerFolder(options.tokenizer), *tokenizer);
  require_known_ends(options.chat, source, *tokenizer, options.tokenizer);
  return source;
}

std::string tokenizer_model(const std::vector<SourceFile>& files, const PrepareOptions& options,
                            const PartialOutput& partial, const ProgressCallback& progress) {
  if (!options.tokenizer.empty()) return read_tokenizer_model(options.tokenizer);
  const fs::Path path = partial.path("tokenizer.model");
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    progress({.remark = "the tokenizer is the one that an earlier start has trained"});
    return read_tokenizer_model(path.string());
  }
  std::string model = train_on_sample(sample_lines(files, options, progress), options, progress);
  fs::publish_file(path, model, Code::kData);
  return model;
}

void publish_template(const ChatSource& source, const fs::Path& folder) {
  fs::publish_file(folder / kChatTemplate, source.text, Code::kData);
  const fs::Path config = folder / kTokenizerConfig;
  if (!source.tokenizer_config.empty()) return fs::publish_file(config, source.tokenizer_config, Code::kData);
  (void)fs::disk().unlink(config.c_str());  // left by an earlier run
}

}  // namespace

void check_options(const PrepareOptions& options) {
  const auto demand = [](bool holds, const std::string& text) {
    if (!holds) throw Error(Code::kUsage, text);
  };
  demand(!options.sources.empty(), "no sources: name the files or folders to prepare");
  demand(!options.output.empty(), "no output folder: name one with --output");
  demand(options.tokenizer.empty() != (options.train_vocab_size == 0),
         "name either a tokenizer (--tokenizer FILE) or the size of one to train (--train-tokenizer "
         "VOCAB_SIZE)");
  demand(options.input.empty() == options.target.empty(),
         "--input and --target make pairs: name both fields, or neither for documents");
  demand(options.pairs() || options.prefix.empty(), "--prefix needs --input and --target");
  demand(!options.chats() || (!options.tokenizer.empty() && options.field.empty()),
         str("--format ", word_of(options.format),
             " needs --tokenizer, that of the model, and reads no --field"));
  demand(!options.preferences() || (options.input.empty() && options.chat.messages == ChatOptions().messages),
         "--format preference reads the fields prompt, chosen and rejected, and no --input, --target or "
         "--messages");
  demand(options.chat.context.empty() || !options.input.empty(),
         "--context goes behind a prompt: it needs --input and --target");
  demand(options.chat.max_without_target >= 0 && options.chat.max_without_target <= 1,
         str("--max-without-target is ", options.chat.max_without_target, ", expected 0 to 1"));
  check_roles(options.chat);
  demand(options.train_vocab_size == 0 || (options.train_vocab_size >= kSmallestVocabulary &&
                                           options.train_vocab_size <= kLargestVocabulary),
         str("--train-tokenizer is ", options.train_vocab_size, ", expected ", kSmallestVocabulary, " to ",
             kLargestVocabulary));
  demand(options.validation_fraction >= 0 && options.validation_fraction <= 0.5,
         str("--validation-fraction is ", options.validation_fraction, ", expected 0 to 0.5"));
  demand(options.save_every_s >= 0 && options.save_every_s <= 86400,
         str("--save-every is ", options.save_every_s, ", expected 0 to 86400 seconds"));
  demand(options.threads >= 1 && options.threads <= 1024,
         str("--threads is ", options.threads, ", expected 1 to 1024"));
}

void make_output_folder(const PrepareOptions& options) {
  in_context("output (--output)", [&] {
    fs::make_directories(options.output, Code::kData);
    if (!options.allow_foreign_folder)
      fs::require_own_folder(options.output, Code::kData, "add --allow-foreign-folder");
  });
}

bool PrepareOptions::writes_template() const {
  std::error_code ignored;
  return chats() && !std::filesystem::equivalent(TokenizerFolder(tokenizer).path(), output, ignored);
}

PrepareReport prepare(const PrepareOptions& given, const ProgressCallback& progress) {
  check_options(given);
  const Sources sources = list_sources(given);
  const auto& files = sources.files;
  PrepareOptions options = settle_format(given, files);
  settle_tokenizer(options, progress);
  if (!sources.remark.empty()) progress({.remark = sources.remark});
  if (given.format == TextFormat::kBySuffix) progress({.remark = describe_format(options, files)});
  make_output_folder(options);
  const std::optional<ChatSource> chat_source = chat_source_of(options);
  const PrepareManifest manifest(options, files, chat_source ? chat_source->identity(options.chat) : nullptr);
  if (auto finished = manifest.find_finished()) {
    require_few_bad_records(options, finished->bad_records, finished->bad_examples);
    // A run that was killed when all was published leaves it.
    if (std::error_code none; std::filesystem::exists(PartialOutput::folder_in(options.output), none))
      PartialOutput(options, manifest.identity(), [](const PrepareProgress&) {}).remove();
    return *finished;
  }
  manifest.check_replaceable();
  PartialOutput partial(options, manifest.identity(), progress);
  fs::remove_drafts(options.output);  // of runs that were killed

  const std::string model = tokenizer_model(files, options, partial, progress);
  const auto tokenizer = ending_with(
      Tokenizer::from_bytes(model, options.tokenizer.empty() ? "tokenizer.model" : options.tokenizer),
      options.end_id);
  std::optional<ChatEncoder> chats;
  if (chat_source) chats.emplace(*chat_source, options.chat, *tokenizer);
  const auto publish_tokenizer = [&] {
    manifest.announce();
    const std::filesystem::path folder(options.output);
    const std::string name = tokenizer_file_name(model);
    fs::publish_file(folder / name, model, Code::kData);
    // Left by an earlier run of the other kind; replaced on request.
    const auto other = folder / (name == "tokenizer.json" ? "tokenizer.model" : "tokenizer.json");
    (void)fs::disk().unlink(other.c_str());
    if (options.writes_template()) publish_template(*chat_source, folder);
  };
  PrepareReport report = tokenize_corpus(files, options, *tokenizer, chats ? &*chats : nullptr, partial,
                                         progress, publish_tokenizer);
  if (report.valid.tokens == 0) {
    // Left by an earlier run; replaced on request.
    (void)fs::disk().unlink((std::filesystem::path(options.output) / "valid.tok").c_str());
  }

  report.format = options.format;
  report.source_files = files.size();
  for (const SourceFile& file : files) report.source_bytes += file.bytes;
  report.duplicate_sources = sources.duplicates;
  report.vocab_size = tokenizer->vocab_size();
  report.tokenizer_digest = tokenizer->digest();
  manifest.publish(report);
  kill_point("prepare_finished");
  partial.remove();
  return report;
}

}  // namespace echelon::data
