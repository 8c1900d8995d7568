#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/choice.h"
#include "data/chat/chat_audit.h"
#include "data/chat/chat_options.h"

namespace echelon::data {

/// text, code: one file is one document. jsonl: one line is one, a JSON object whose `field` holds the text.
/// csv, parquet: one row is one, and `field` is a column's name. chat: one line of JSON, or one row of a
/// Parquet file, is a conversation. preference: one is a prompt with a chosen and a rejected answer.
/// kBySuffix: the format that the names of all sources agree on.
enum class TextFormat : std::uint8_t { kBySuffix, kText, kCode, kJsonl, kCsv, kParquet, kChat, kPreference };

/// The treatment of a record that cannot be used: not UTF-8, not a JSON object with the field, a row with too
/// few columns, a binary file. kByFormat: code is skipped, everything else stops.
enum class BadRecords : std::uint8_t { kByFormat, kStop, kSkip };

}  // namespace echelon::data

namespace echelon {
template <>
inline constexpr std::array<std::string_view, 8> kWords<data::TextFormat>{
    "by suffix", "text", "code", "jsonl", "csv", "parquet", "chat", "preference"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<data::BadRecords>{"by format", "stop", "skip"};
}  // namespace echelon

namespace echelon::data {

/// The arguments of `echelon prepare`; docs/data.md tells what each means to the user.
struct PrepareOptions {
  std::vector<std::string> sources;  ///< files and folders
  std::string output;                ///< folder
  std::string leave_out;             ///< folder that belongs to no source; empty: output
  std::vector<std::string> include;  ///< shell patterns; empty: default_include(format)
  TextFormat format = TextFormat::kBySuffix;
  std::string field;                     ///< jsonl, csv, parquet; empty: "text"
  std::string input;                     ///< field of a pair's source or of a prompt; empty: neither
  std::string target;                    ///< field of a pair's target or of a response
  std::string prefix;                    ///< put in front of a pair's source
  std::string tokenizer;                 ///< model file, or a Hugging Face folder; empty: train one
  std::int32_t end_id = -1;              ///< behind documents; prepare() sets it; -1: the tokenizer's EOS
  std::int64_t train_vocab_size = 0;     ///< pieces of the tokenizer to train
  std::uint64_t train_bytes = 10000000;  ///< text to train it on, about
  ChatOptions chat;                      ///< format chat, preference
  double validation_fraction = 0.02;     ///< of the documents, in [0, 0.5]
  int threads = 1;
  std::uint64_t seed = 1;
  BadRecords on_bad_record = BadRecords::kByFormat;
  std::uint64_t max_bad_records = 0;  ///< kSkip: more than these stop the work; 0: no limit
  std::int64_t save_every_s = 30;     ///< how often what is done is made durable; 0: after every MiB or so
  bool force = false;                 ///< replace what other inputs or options made
  bool allow_foreign_folder = false;  ///< the output folder may belong to another user

  [[nodiscard]] bool rows() const {
    return format == TextFormat::kJsonl || format == TextFormat::kCsv || format == TextFormat::kParquet ||
           chats();
  }
  /// Returns whether chat_template.jinja and tokenizer_config.json are written to the output, for checkpoints
  /// and exports. They are not if the output is the tokenizer's folder, because they would replace its own.
  [[nodiscard]] bool writes_template() const;
  /// The records are rendered with a chat template.
  [[nodiscard]] bool chats() const { return format == TextFormat::kChat || preferences(); }
  [[nodiscard]] bool preferences() const { return format == TextFormat::kPreference; }
  [[nodiscard]] std::string text_field() const { return field.empty() ? "text" : field; }
  /// jsonl, csv, parquet: a record is a source and a target, stored as two documents.
  [[nodiscard]] bool pairs() const { return !input.empty() && !chats(); }
};

struct PrepareProgress {
  std::string stage{};  ///< "reading a sample", "training the tokenizer", "tokenizing"
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t tokens = 0;
  std::string remark{};  ///< not about the stage: a line for the user, given once
  bool anew = false;     ///< the remark says that work of an earlier start is done again
};

using ProgressCallback = std::function<void(const PrepareProgress&)>;

/// One token file of the output. All fields are zero if it was not made.
struct PreparedFile {
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< TokenFileHeader::header_crc
};

/// Why records are bad, numbers in a reason being N ("has N columns"), and how many each. Rare reasons beyond
/// the first few are together.
using BadReasons = std::map<std::string, std::uint64_t>;

struct PrepareReport {
  TextFormat format = TextFormat::kText;  ///< what the sources were read as
  bool up_to_date = false;  ///< nothing was done: the output was made from the same inputs and options
  std::uint64_t source_files = 0;
  std::uint64_t source_bytes = 0;
  std::uint64_t kept_records = 0;
  std::uint64_t empty_records = 0;
  std::uint64_t duplicate_sources = 0;  ///< files named more than once, by links too: read once
  std::uint64_t bad_records = 0;
  BadReasons bad_reasons;
  std::vector<std::string> bad_examples;  ///< where and why, of the first few
  std::int64_t vocab_size = 0;
  std::uint64_t tokenizer_digest = 0;
  PreparedFile train;
  PreparedFile valid;
  std::optional<ChatAudit> chat;  ///< format chat; preference: of all answers
};

/// Calls `visit` with the name in JSON and the member for all that a report says about records left out.
template <class Report, class Visit>
void visit_left_out(Report& report, const Visit& visit) {
  visit("empty_records", report.empty_records);
  visit("bad_records", report.bad_records);
  visit("bad_reasons", report.bad_reasons);
  visit("bad_examples", report.bad_examples);
}

/// What prepare.json and `echelon prepare --json` both say of a report.
[[nodiscard]] nlohmann::ordered_json results_json(const PrepareReport& report);

/// Throws Error(kUsage) for options that contradict each other or are out of range.
void check_options(const PrepareOptions& options);

/// Makes the output's folder. Throws Error(kData), also if it belongs to another user.
void make_output_folder(const PrepareOptions& options);

/// Makes output/train.tok, valid.tok, the tokenizer (tokenizer_file_name) and, last, prepare.json. The bytes
/// of the three data files depend on the inputs and options alone, not on `threads`, nor on how often the
/// work was interrupted: what it had saved (PartialOutput) is not done again. `progress` is called on the
/// calling thread. Throws Error(kData), Error(kUsage) for options that contradict each other; leaves no
/// half-made file under a final name.
PrepareReport prepare(const PrepareOptions& options, const ProgressCallback& progress);

}  // namespace echelon::data
