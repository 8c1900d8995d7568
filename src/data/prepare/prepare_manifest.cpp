#include "data/prepare/prepare_manifest.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/foreign_json.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "data/tokens/token_file.h"
#include "text/tokenizer_digest.h"
#include "text/tokenizer_folder.h"

namespace echelon::data {
namespace {

namespace stdfs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

Json identity_of(const PrepareOptions& options, const std::vector<SourceFile>& files, const Json& chat) {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  for (const SourceFile& file : files) {
    bytes += file.bytes;
    crc = crc32c(str(stdfs::absolute(file.path).lexically_normal().string(), '\n', file.bytes, ' ',
                     file.modified_ns, '\n'),
                 crc);
  }
  Json identity;
  identity["format"] = kFormat;
  identity["sources"] = {{"files", files.size()}, {"bytes", bytes}, {"list_crc32c", crc}};
  identity["text_format"] = word_of(options.format);
  if (options.chats()) {
    identity["chat"] = chat;
    identity["prompt"] = {{"input", options.input}, {"target", options.target}};
  } else if (options.pairs()) {
    identity["pairs"] = {{"input", options.input}, {"target", options.target}, {"prefix", options.prefix}};
  } else if (options.rows()) {
    identity["field"] = options.text_field();
  }
  if (options.tokenizer.empty()) {
    identity["tokenizer"] = {{"trained_vocab_size", options.train_vocab_size},
                             {"trained_bytes", options.train_bytes}};
  } else {
    identity["tokenizer"] = {{"digest", tokenizer_digest(options.tokenizer)}};
    if (options.end_id >= 0) identity["tokenizer"]["end_id"] = options.end_id;
  }
  identity["validation_fraction"] = options.validation_fraction;
  identity["seed"] = options.seed;
  identity["on_bad_record"] = word_of(options.on_bad_record);
  return identity;
}

Json to_json(const PreparedFile& file) {
  return {{"tokens", file.tokens}, {"documents", file.documents}, {"bytes", file.bytes}};
}

PreparedFile prepared_file(const nlohmann::json& json) {
  return {json.at("tokens"), json.at("documents"), json.at("bytes"), json.at("header_crc32c")};
}

/// True if `path` is the token file in the report; without one in the report, if it does not exist.
bool is_current(const stdfs::path& path, const PreparedFile& file) {
  std::error_code ignored;
  if (file.tokens == 0) return !stdfs::exists(path, ignored);
  return TokenFile(path).header().header_crc == file.crc;
}

}  // namespace

Json results_json(const PrepareReport& report) {
  Json json{{"kept_records", report.kept_records}};
  visit_left_out(report, [&](const char* name, const auto& member) { json[name] = member; });
  json["duplicate_sources"] = report.duplicate_sources;
  json["vocab_size"] = report.vocab_size;
  json["train"] = to_json(report.train);
  json["valid"] = to_json(report.valid);
  if (report.chat) json["chat"] = report.chat->to_json();
  return json;
}

PrepareManifest::PrepareManifest(const PrepareOptions& options, const std::vector<SourceFile>& files,
                                 const Json& chat)
    : options_(options), folder_(options.output), identity_(identity_of(options, files, chat)) {}

PrepareManifest::PrepareManifest(const PrepareOptions& options, Json identity)
    : options_(options), folder_(options.output), identity_(std::move(identity)) {}

/// Was it written for this identity? Compared as texts, because file names need not be UTF-8.
bool PrepareManifest::made(const nlohmann::json& manifest) const {
  return manifest.is_object() && manifest.contains("made_from") &&
         json_text(manifest["made_from"]) == json_text(nlohmann::json(identity_));
}

std::optional<PrepareReport> PrepareManifest::find_finished() const {
  const stdfs::path folder(folder_);
  try {
    const nlohmann::json json = announced();
    if (json.is_null()) return {};
    PrepareReport report;
    report.format = options_.format;
    report.up_to_date = true;
    report.source_files = json.at("made_from").at("sources").at("files");
    report.source_bytes = json.at("made_from").at("sources").at("bytes");
    report.kept_records = json.at("kept_records");
    visit_left_out(report, [&](const char* name, auto& member) { json.at(name).get_to(member); });
    report.duplicate_sources = json.at("duplicate_sources");
    report.vocab_size = json.at("vocab_size");
    report.tokenizer_digest = json.at("tokenizer_digest");
    report.train = prepared_file(json.at("train"));
    report.valid = prepared_file(json.at("valid"));
    if (options_.chats()) report.chat = ChatAudit::from_json(json.at("chat"));
    const bool whole = report.train.tokens > 0 && is_current(folder / "train.tok", report.train) &&
                       is_current(folder / "valid.tok", report.valid) &&
                       tokenizer_digest(find_tokenizer(folder)) == report.tokenizer_digest &&
                       (!options_.writes_template() || stdfs::exists(folder / kChatTemplate));
    return whole ? std::optional(report) : std::nullopt;
  } catch (const Error&) {
    return {};  // a file is missing or damaged: made again
  } catch (const nlohmann::json::exception&) {
    return {};  // unfinished, or not written by this version
  }
}

nlohmann::json PrepareManifest::announced() const {
  try {
    const auto text =
        fs::read_file(stdfs::path(folder_) / "prepare.json", std::uint64_t{1} << 20, Code::kData);
    nlohmann::json manifest = read_foreign_json(text).value;
    return made(manifest) ? manifest : nlohmann::json();
  } catch (const Error&) {
    return {};  // no manifest: the other files in the folder decide
  }
}

void PrepareManifest::check_replaceable() const {
  if (options_.force || !announced().is_null()) return;
  const stdfs::path folder(folder_);
  std::error_code ignored;
  std::vector<std::string> names{"prepare.json", "train.tok", "valid.tok", "tokenizer.model",
                                 "tokenizer.json"};
  if (options_.writes_template()) names.insert(names.end(), {kChatTemplate, kTokenizerConfig});
  for (const std::string& name : names) {
    const stdfs::path path = folder / name;
    if (!stdfs::exists(path, ignored)) continue;
    if (!options_.tokenizer.empty() && stdfs::equivalent(path, options_.tokenizer, ignored)) continue;
    throw Error(Code::kData, "'", path.string(),
                "' was made from other sources or options: choose another --output "
                "or replace it with --force");
  }
}

void PrepareManifest::announce(Json more) const {
  more["made_from"] = identity_;
  fs::publish_file(folder_ + "/prepare.json", json_text(more) + "\n", Code::kData);
}

void PrepareManifest::publish(const PrepareReport& report) const {
  Json json{{"made_from", identity_},
            {"vocab_size", report.vocab_size},
            {"tokenizer_digest", report.tokenizer_digest}};
  json.update(results_json(report));
  json["train"]["header_crc32c"] = report.train.crc;
  json["valid"]["header_crc32c"] = report.valid.crc;
  announce(std::move(json));
}

}  // namespace echelon::data
