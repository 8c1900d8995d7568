#include "data/prepare/text_format.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "data/prepare/source_stream.h"

namespace echelon::data {
namespace {

constexpr std::array kFormats{TextFormat::kText, TextFormat::kCode, TextFormat::kJsonl, TextFormat::kCsv,
                              TextFormat::kParquet};

std::vector<std::string> with_packed(const std::vector<std::string>& patterns) {
  std::vector<std::string> all = patterns;
  for (const char* packing : {".gz", ".zst"}) {
    for (const std::string& pattern : patterns) all.push_back(pattern + packing);
  }
  return all;
}

TextFormat or_text(TextFormat format) {
  return format == TextFormat::kBySuffix ? TextFormat::kText : format;
}

std::string described(const SourceFile& file) {
  const TextFormat format = format_of(file.path);
  return str("'", file.path.string(), "' is ", word_of(or_text(format)),
             format == TextFormat::kBySuffix ? " (the default for its name)" : "");
}

TextFormat common_format(const std::vector<SourceFile>& files) {
  const TextFormat first = or_text(format_of(files.front().path));
  const auto other = std::ranges::find_if(
      files, [&](const SourceFile& file) { return or_text(format_of(file.path)) != first; });
  if (other == files.end()) return first;
  throw Error(Code::kUsage, "the sources are of more than one format: ", described(files.front()), ", ",
              described(*other),
              "; name one with --format, choose files with --include, or prepare them separately");
}

/// Only rows have fields.
void check_fields(const PrepareOptions& settled) {
  if (settled.rows()) return;
  const char* option = settled.pairs() ? "--input and --target need" : "--field needs";
  if (!settled.pairs() && settled.field.empty()) return;
  throw Error(Code::kUsage, option, " rows, and the sources are read as ", word_of(settled.format),
              "; name their format with --format csv, jsonl or parquet");
}

}  // namespace

std::vector<std::string> default_include(TextFormat format) {
  switch (format) {
    case TextFormat::kBySuffix: break;
    case TextFormat::kText: return with_packed({"*.txt", "*.md", "*.rst"});
    case TextFormat::kCode:
      return {"*.py",  "*.pyi",  "*.c",  "*.h",  "*.cc", "*.cpp", "*.cxx", "*.hpp", "*.cu",
              "*.cuh", "*.rs",   "*.go", "*.js", "*.ts", "*.sh",  "*.jl",  "*.lua", "*.rb",
              "*.pl",  "*.java", "*.kt", "*.cs", "*.hs", "*.sql", "*.R",   "*.f90", "*.scala"};
    case TextFormat::kChat:
    case TextFormat::kPreference:
    case TextFormat::kJsonl: {
      // Not *.json, which beside data usually describes it; compressed, it is data.
      auto patterns = with_packed({"*.jsonl", "*.ndjson"});
      patterns.insert(patterns.end(), {"*.json.gz", "*.json.zst"});
      if (format != TextFormat::kJsonl) patterns.emplace_back("*.parquet");
      return patterns;
    }
    case TextFormat::kCsv: return with_packed({"*.csv"});
    case TextFormat::kParquet: return {"*.parquet"};
  }
  std::vector<std::string> all;
  for (const TextFormat each : kFormats) {
    const auto patterns = default_include(each);
    all.insert(all.end(), patterns.begin(), patterns.end());
  }
  return all;
}

TextFormat format_of(const std::filesystem::path& file) {
  const std::filesystem::path name = packing_of(file) == Packing::kNone ? file.filename() : file.stem();
  const auto is_like = [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), FNM_CASEFOLD) == 0;
  };
  if (is_like("*.json")) return TextFormat::kJsonl;
  for (const TextFormat format : kFormats) {
    const auto patterns = default_include(format);
    if (std::ranges::any_of(patterns, is_like)) return format;
  }
  return TextFormat::kBySuffix;
}

bool is_parquet(const SourceFile& file, const PrepareOptions& options) {
  return options.format == TextFormat::kParquet ||
         (options.chats() && format_of(file.path) == TextFormat::kParquet);
}

PrepareOptions settle_format(const PrepareOptions& options, const std::vector<SourceFile>& files) {
  PrepareOptions settled = options;
  if (settled.format == TextFormat::kBySuffix) settled.format = common_format(files);
  for (const SourceFile& file : files) {
    if (format_of(file.path) == TextFormat::kParquet && !is_parquet(file, settled))
      throw Error(Code::kUsage, "source '", file.path.string(), "' is Parquet by its suffix, not ",
                  word_of(settled.format), ": use --format parquet, chat or preference");
  }
  if (settled.on_bad_record == BadRecords::kByFormat) {
    settled.on_bad_record = settled.format == TextFormat::kCode ? BadRecords::kSkip : BadRecords::kStop;
  }
  check_fields(settled);
  return settled;
}

std::string describe_format(const PrepareOptions& settled, const std::vector<SourceFile>& files) {
  std::string unit = "each a document";
  if (settled.rows()) {
    const char* row = settled.format == TextFormat::kJsonl ? "line" : "row";
    unit = settled.pairs() ? str("'", foreign_text(settled.input), "' and '", foreign_text(settled.target),
                                 "' of each ", row, " a pair")
                           : str("'", foreign_text(settled.text_field()), "' of each ", row, " a document");
  }
  const auto unknown = std::ranges::find_if(
      files, [](const SourceFile& file) { return format_of(file.path) == TextFormat::kBySuffix; });
  const std::string why =
      unknown == files.end()
          ? "by suffix; --format overrides it"
          : str("'", unknown->path.string(), "' has no suffix that names a format; set it with --format");
  return str("reading ", counted(files.size(), "file"), " as ", word_of(settled.format), ", ", unit, " (",
             why, ")");
}

}  // namespace echelon::data
