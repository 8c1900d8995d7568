#include "data/prepare/prepare.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "data/prepare/corpus.h"
#include "data/prepare/prepare_manifest.h"
#include "data/prepare/sources.h"
#include "data/prepare/text_format.h"
#include "text/special_ids.h"
#include "text/tokenizer.h"
#include "text/tokenizer_digest.h"
#include "text/tokenizer_training.h"

namespace echelon::data {
namespace {

void check(const PrepareOptions& options) {
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
  demand(options.train_vocab_size == 0 || (options.train_vocab_size >= kSmallestVocabulary &&
                                           options.train_vocab_size <= kLargestVocabulary),
         str("--train-tokenizer is ", options.train_vocab_size, ", expected ", kSmallestVocabulary, " to ",
             kLargestVocabulary));
  demand(options.validation_fraction >= 0 && options.validation_fraction <= 0.5,
         str("--validation-fraction is ", options.validation_fraction, ", expected 0 to 0.5"));
  demand(options.threads >= 1 && options.threads <= 1024,
         str("--threads is ", options.threads, ", expected 1 to 1024"));
}

/// Resolves what depends on the format, which may depend on the sources.
void check_fields(const PrepareOptions& settled) {
  if (settled.rows()) return;
  const char* option = settled.pairs() ? "--input and --target need" : "--field needs";
  if (!settled.pairs() && settled.field.empty()) return;
  throw Error(Code::kUsage, str(option, " rows, and the sources are read as ", word_of(settled.format),
                                "; name their format with --format csv or jsonl"));
}

/// Locks the folder against a second `prepare` while it lives; without effect on file systems without
/// locks.
fs::Fd lock_folder(const std::string& folder) {
  fs::Fd fd = fs::open(folder, O_RDONLY | O_DIRECTORY, Code::kData);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error(Code::kData, str("another `echelon prepare` is writing to '", folder, "': wait for it"));
  }
  return fd;
}

/// The tokenizer's file and, where a model lies beside it that ends text in another way, that end.
void settle_tokenizer(PrepareOptions& options, const ProgressCallback& progress) {
  if (options.tokenizer.empty()) return;
  const fs::Path file = tokenizer_file(options.tokenizer);
  options.tokenizer = file.string();
  const fs::Path folder = file.has_parent_path() ? file.parent_path() : fs::Path(".");
  const auto content = [&](const std::string& name) {
    std::error_code ignored;
    constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
    return std::filesystem::exists(folder / name, ignored)
               ? fs::read_file(folder / name, kMostBytes, Code::kData)
               : std::string();
  };
  const SpecialIds ids = special_ids_of(content, folder.string());
  if (ids.ends.empty() && ids.end_token.empty()) return;
  const auto tokenizer = Tokenizer::load(file);
  const std::int32_t end = document_end(ids, *tokenizer);
  if (end == tokenizer->eos_id()) return;
  options.end_id = end;
  progress({.remark = str("documents end with id ", end, " (", printable(tokenizer->name_of(end)),
                          "), as the model in '", folder.string(), "' ends text")});
}

std::string tokenizer_model(const std::vector<SourceFile>& files, const PrepareOptions& options,
                            const ProgressCallback& progress) {
  if (!options.tokenizer.empty()) return read_tokenizer_model(options.tokenizer);
  const auto lines = sample_lines(files, options, progress);
  progress({.stage = "training the tokenizer", .bytes_done = 0, .bytes_total = 0, .tokens = 0});
  return train_tokenizer(lines, options.train_vocab_size);
}

}  // namespace

PrepareReport prepare(const PrepareOptions& given, const ProgressCallback& progress) {
  check(given);
  const Sources sources = list_sources(given);
  const auto& files = sources.files;
  PrepareOptions options = settle_format(given, files);
  check_fields(options);
  settle_tokenizer(options, progress);
  if (given.format == TextFormat::kBySuffix) progress({.remark = describe_format(options, files)});
  in_context("output (--output)", [&] {
    fs::make_directories(options.output, Code::kData);
    if (!options.allow_foreign_folder)
      fs::require_own_folder(options.output, Code::kData, "add --allow-foreign-folder");
  });
  const fs::Fd lock = lock_folder(options.output);
  fs::remove_drafts(options.output);  // of runs that were killed
  const PrepareManifest manifest(options, files);
  if (auto finished = manifest.find_finished()) return *finished;
  manifest.check_replaceable();

  const std::string model = tokenizer_model(files, options, progress);
  const auto tokenizer = ending_with(
      Tokenizer::from_bytes(model, options.tokenizer.empty() ? "tokenizer.model" : options.tokenizer),
      options.end_id);
  const auto publish_tokenizer = [&] {
    manifest.announce();
    const std::filesystem::path folder(options.output);
    const std::string name = tokenizer_file_name(model);
    fs::publish_file(folder / name, model, Code::kData);
    // Left by an earlier run of the other kind; replaced on request.
    const auto other = folder / (name == "tokenizer.json" ? "tokenizer.model" : "tokenizer.json");
    (void)fs::disk().unlink(other.c_str());
  };
  CorpusResult corpus = tokenise_corpus(files, options, *tokenizer, progress, publish_tokenizer);
  if (corpus.valid.tokens == 0) {
    // Left by an earlier run; replaced on request.
    (void)fs::disk().unlink((std::filesystem::path(options.output) / "valid.tok").c_str());
  }

  PrepareReport report;
  report.format = options.format;
  report.source_files = files.size();
  report.source_bytes =
      std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const SourceFile& file) { return sum + file.bytes; });
  report.empty_records = corpus.empty_records;
  report.bad_records = corpus.bad_records;
  report.bad_examples = std::move(corpus.bad_examples);
  report.duplicate_sources = sources.duplicates;
  report.vocab_size = tokenizer->vocab_size();
  report.tokenizer_digest = tokenizer->digest();
  report.train = corpus.train;
  report.valid = corpus.valid;
  manifest.publish(report);
  return report;
}

}  // namespace echelon::data
