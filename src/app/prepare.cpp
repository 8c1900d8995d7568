#include "data/prepare/prepare.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "app/commands.h"
#include "app/prepare_chat.h"
#include "base/foreign_text.h"
#include "base/log.h"
#include "base/not_copied.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/status_line.h"
#include "data/prepare/mixture.h"
#include "text/tokenizer_digest.h"

namespace echelon::app {
namespace {

using data::PrepareProgress;
using data::PrepareReport;
using Clock = std::chrono::steady_clock;

/// The command line, unchecked.
struct Arguments {
  data::PrepareOptions options;
  std::vector<std::string> weights;  ///< NAME=NUMBER; not empty: the sources are a mixture's
  std::uint64_t shown = 0;           ///< conversations to print
  bool json = false;
};

/// Progress on standard error: a live bar on a terminal, else a line every ten seconds.
class ProgressLine : NotCopied {
 public:
  ProgressLine() : live_(status_line::is_live()), stage_start_(Clock::now()) {}
  ~ProgressLine() { status_line::show(""); }

  void show(const PrepareProgress& progress) {
    if (progress.anew) return log::warn(progress.remark);
    if (!progress.remark.empty()) return log::info(progress.remark);
    const auto now = Clock::now();
    const bool new_stage = progress.stage != stage_;
    if (new_stage) {
      stage_ = progress.stage;
      stage_start_ = now;
      stage_begin_ = progress.bytes_done;  // what an earlier start has done
    }
    const auto interval = live_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
    const bool complete = progress.bytes_total > 0 && progress.bytes_done == progress.bytes_total;
    if (!new_stage && !(live_ && complete) && now - last_ < interval) return;
    last_ = now;
    const std::string text = line(progress, std::chrono::duration<double>(now - stage_start_).count());
    if (live_)
      status_line::show(text);
    else
      log::info(text);
  }

 private:
  [[nodiscard]] std::string line(const PrepareProgress& progress, double seconds) const {
    if (progress.bytes_total == 0) return progress.stage;
    const double share =
        std::min(1.0, static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total));
    std::string text = progress.stage + " ";
    constexpr std::size_t kWidth = 24;
    if (live_) text += str("[", status_line::bar(share, kWidth), "] ");
    text += str(static_cast<int>(share * 100), "% of ", human_bytes(progress.bytes_total));
    if (progress.tokens > 0) text += str(", ", human_count(progress.tokens), " tokens");
    const std::uint64_t before = std::min(stage_begin_, progress.bytes_done);
    return text + status_line::pace(progress.bytes_done - before, progress.bytes_total - before, seconds);
  }

  bool live_;
  std::string stage_;
  Clock::time_point stage_start_;
  std::uint64_t stage_begin_ = 0;
  Clock::time_point last_;
};

void print_file(const std::string& path, const data::PreparedFile& file) {
  std::cout << path << ": " << human_count(file.tokens) << " tokens, " << human_count(file.documents)
            << (file.documents == 1 ? " document, " : " documents, ") << human_bytes(file.bytes) << "\n";
}

/// What became of every record, and of files with several names.
void print_counts(const PrepareReport& report) {
  const auto print = [](std::uint64_t count, const std::string& what) {
    constexpr int kWidth = 12;
    if (count > 0) std::cout << std::setw(kWidth) << count << "  " << what << "\n";
  };
  std::cout << "records:\n";
  print(report.kept_records, "kept");
  print(report.empty_records, "left out: empty");
  for (const auto& [reason, count] : report.bad_reasons) print(count, "left out: " + foreign_text(reason));
  if (report.chat) print(report.chat->samples_without_target, "left out: nothing of it is trained");
  print(report.duplicate_sources, "files named more than once, read once");
}

void print(const PrepareReport& report, const std::string& folder) {
  if (report.up_to_date)
    std::cout << "nothing to do: '" << folder << "' was made from these sources and options\n";
  print_file(folder + "/train.tok", report.train);
  if (report.valid.tokens > 0) print_file(folder + "/valid.tok", report.valid);
  std::cout << find_tokenizer(folder).string() << ": " << report.vocab_size << " pieces\n";
  print_counts(report);
  if (report.bad_records > 0) std::cout << "the first that are bad:\n";
  for (const std::string& example : report.bad_examples) std::cout << "  " << foreign_text(example) << "\n";
  if (report.bad_records > report.bad_examples.size()) std::cout << "  ...\n";
  if (report.chat) print_audit(*report.chat);
}

void print_recipe(const PrepareReport& report, const data::PrepareOptions& options) {
  const char* kind = "";
  if (options.pairs()) kind = ", data.kind: pairs";
  if (options.chats()) kind = options.preferences() ? ", data.kind: preference" : ", data.kind: chat";
  std::cout << "recipe: model.vocab_size: " << report.vocab_size << kind << ", data.path: " << options.output
            << "/train.tok"
            << (report.valid.tokens > 0 ? str(", data.validation.path: ", options.output, "/valid.tok") : "")
            << "\n";
}

nlohmann::ordered_json to_json(const PrepareReport& report) {
  nlohmann::ordered_json json{{"up_to_date", report.up_to_date},
                              {"format", word_of(report.format)},
                              {"source_files", report.source_files},
                              {"source_bytes", report.source_bytes}};
  json.update(data::results_json(report));
  return json;
}

void print_json(const nlohmann::ordered_json& json) {
  std::cout << json_text(json, -1) << "\n";
}

template <class Work>
auto with_progress(const Work& work) {
  ProgressLine line;  // destroyed, and its line cleared, before anything else is printed
  return work([&](const PrepareProgress& progress) { line.show(progress); });
}

PrepareReport prepare_one(const Arguments& arguments, const data::PrepareOptions& options) {
  PrepareReport report =
      with_progress([&](const data::ProgressCallback& progress) { return data::prepare(options, progress); });
  if (arguments.json) return report;
  print(report, options.output);
  if (arguments.shown > 0)
    print_chats(options.output + "/train.tok", find_tokenizer(options.output).string(), arguments.shown);
  return report;
}

void prepare_mixture(const Arguments& arguments) {
  const data::PrepareOptions& options = arguments.options;
  std::vector<data::MixturePart> parts = data::mixture_parts(options, arguments.weights);
  const std::shared_ptr<const void> lock = with_progress(
      [&](const data::ProgressCallback& progress) { return data::begin_mixture(options, parts, progress); });
  std::vector<PrepareReport> reports;
  nlohmann::ordered_json json;
  for (const data::MixturePart& part : parts) {
    log::info("source " + part.name);
    json["sources"][part.name] = to_json(reports.emplace_back(prepare_one(arguments, part.options)));
  }
  const std::string recipe = data::mixture_recipe(parts, reports);
  const std::string file = data::publish_mixture(options, recipe);
  json["recipe"] = file;
  if (arguments.json) {
    print_json(json);
  } else {
    std::cout << file << ":\n"
              << recipe << "recipe: model.vocab_size: " << reports.front().vocab_size << ", include: " << file
              << "\n";
  }
}

void prepare_sources(const Arguments& arguments, const CLI::App& command) {
  const data::PrepareOptions& options = arguments.options;
  // Checked here, because CLI11's required() would demand them with a subcommand too.
  if (options.sources.empty()) throw CLI::RequiredError("sources");
  if (options.output.empty()) throw CLI::RequiredError("--output");
  if (!options.chats()) refuse_chat_options(command, "--format chat or preference");
  if (!arguments.weights.empty()) return prepare_mixture(arguments);
  const PrepareReport report = prepare_one(arguments, options);
  if (arguments.json) {
    print_json(to_json(report));
  } else {
    print_recipe(report, options);
  }
}

void add_source_options(CLI::App& command, Arguments& arguments) {
  data::PrepareOptions& options = arguments.options;
  add_choice(
      command, "--format", options.format,
      "text, code: each file is a document; jsonl: each line; csv, parquet: each row; chat: each "
      "line of JSON or row of Parquet is a conversation; preference: each is a prompt with a chosen and "
      "a rejected answer (default: by suffix)",
      1);
  auto* field = command.add_option("--field", options.field,
                                   "JSONL, CSV, Parquet: the field that holds the text (default: text)");
  command
      .add_option("--input", options.input,
                  "JSONL, CSV, Parquet: make pairs; the field that holds the source; chats: the prompt")
      ->type_name("FIELD")
      ->excludes(field);
  command
      .add_option("--target", options.target,
                  "JSONL, CSV, Parquet: make pairs; the field that holds the target; chats: the response")
      ->type_name("FIELD")
      ->excludes(field);
  command.add_option("--prefix", options.prefix, "Put this in front of a pair's source, e.g. 'summarize: '");
  command
      .add_option("--include", options.include,
                  "Take only the files of a folder that match, e.g. '*.py'; may be repeated")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command
      .add_option(
          "--weight", arguments.weights,
          "Prepare a mixture: the weight of the source that is written NAME=SOURCE; once for each, e.g. "
          "web=0.7")
      ->allow_extra_args(false)
      ->type_name("NAME=NUMBER");
}

void add_output_options(CLI::App& command, Arguments& arguments) {
  command.add_flag("--force", arguments.options.force,
                   "Replace output that was made from other sources or options");
  command.add_flag("--allow-foreign-folder", arguments.options.allow_foreign_folder,
                   "Allow an output folder of another user, who can then change the files");
  add_json(command, arguments.json);
}

}  // namespace

void add_prepare(CLI::App& app, int& /*status*/) {
  const auto [command, arguments] = add_command<Arguments>(
      app, "prepare", "Tokenize text, source code, JSONL, CSV, Parquet or chats into files to train on",
      prepare_sources);
  data::PrepareOptions& options = arguments.options;
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
  command.add_option("sources", options.sources, "Files and folders to read")->type_name("SOURCE");
  command.add_option("-o,--output", options.output, "Folder for train.tok, valid.tok and the tokenizer");
  add_source_options(command, arguments);
  auto* tokenizer =
      command
          .add_option(
              "--tokenizer", options.tokenizer,
              "Use this sentencepiece model or tokenizer.json, or that of a folder; documents end as a "
              "model beside it ends text")
          ->type_name("FILE|FOLDER");
  command
      .add_option("--train-tokenizer", options.train_vocab_size,
                  "Train a sentencepiece model of this many pieces")
      ->excludes(tokenizer);
  command.add_option("--tokenizer-bytes", options.train_bytes, "Train it on about this much of the text")
      ->check(in_range(std::uint64_t{1000}, std::uint64_t{1} << 34))
      ->capture_default_str();
  command
      .add_option("--validation-fraction", options.validation_fraction,
                  "Fraction of the documents written to valid.tok")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads to tokenize with; does not affect the result")
      ->capture_default_str();
  command
      .add_option(
          "--save-every", options.save_every_s,
          "Save what is done after this many seconds; the same command, interrupted, goes on from there")
      ->type_name("SECONDS")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Selects which documents are for validation")
      ->capture_default_str();
  add_choice(command, "--on-bad-record", options.on_bad_record,
             "skip or stop (default: skip for code, else stop)", 1);
  command
      .add_option("--max-bad-records", options.max_bad_records,
                  "skip: stop at more bad records than this; 0: no limit")
      ->capture_default_str();
  add_chat_options(command, options.chat, arguments.shown);
  add_output_options(command, arguments);
  add_quiet(command);
}

}  // namespace echelon::app
