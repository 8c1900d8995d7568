#include "data/prepare/parquet_rows.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/process/plugin.h"
#include "base/process/process.h"
#include "base/process/python_package.h"
#include "base/str.h"
#include "data/chat/conversation.h"
#include "data/prepare/source_stream.h"

namespace echelon::data {
namespace {

constexpr const char* kConvert =
    "or write the file as JSONL: python3 -c \"import pandas; pandas.read_parquet('in.parquet').to_json("
    "'out.jsonl', orient='records', lines=True)\"";

[[noreturn]] void cannot_load(const std::string& why, const std::string& remedy) {
  throw Error(Code::kEnvironment, "Parquet cannot be read: ", why, "; ", remedy, ", ", kConvert);
}

void* load(const std::filesystem::path& library) {
  std::string why;
  if (void* handle = open_library(library, why)) return handle;
  cannot_load(why,
              "install its libraries where PyTorch is (python3 -m pip install pyarrow==" ECHELON_ARROW_VERSION
              "), or elsewhere (--target FOLDER) and set ECHELON_ARROW=FOLDER/pyarrow");
}

/// The loader finds a library that is loaded by its name, and does not look for it elsewhere.
void load_arrow(const std::filesystem::path& folder) {
  for (const char* name : {"libarrow.so.", "libparquet.so."}) load(folder / str(name, ECHELON_ARROW_ABI));
}

/// A build knows its Arrow's place; a released folder takes that of the Python whose libtorch trains.
void* load_with_arrow(const std::filesystem::path& plugin) {
  const std::string named = environment_variable("ECHELON_ARROW");
  const bool chosen = !named.empty();
  if (chosen) load_arrow(named);
  std::string why;
  if (void* handle = open_library(plugin, why)) return handle;
  const auto found = chosen ? std::nullopt : find_python_package("pyarrow");
  if (found) load_arrow(*found);
  return load(plugin);
}

OpenParquet* load_plugin() {
  const std::filesystem::path path = plugin_path("libechelon_parquet.so");
  if (!std::filesystem::exists(path))
    cannot_load(str("there is no '", path.string(), "'"), "build it (./make.sh build)");
  void* open = dlsym(load_with_arrow(path), kOpenParquet);
  if (open == nullptr)
    cannot_load(str("'", path.string(), "' is of another version"), "build both together (./make.sh build)");
  return reinterpret_cast<OpenParquet*>(open);
}

OpenParquet& plugin() {
  static OpenParquet* const open = load_plugin();
  return *open;
}

std::vector<WantedColumn> wanted_columns(const PrepareOptions& options) {
  std::vector<WantedColumn> columns;
  if (!options.input.empty()) {
    columns.push_back({.name = options.input, .option = "--input"});
    if (options.target != options.input) columns.push_back({.name = options.target, .option = "--target"});
  } else if (options.preferences()) {
    columns = {{.name = "prompt", .option = "--format preference", .may_lack = true},
               {.name = "chosen", .option = "--format preference"},
               {.name = "rejected", .option = "--format preference"}};
  } else if (options.chats()) {
    columns.push_back({.name = options.chat.messages, .option = "--messages"});
  } else {
    columns.push_back({.name = options.text_field(), .option = "--field"});
  }
  if (!options.chats()) return columns;
  columns.push_back({.name = options.chat.tools, .option = "--tools", .may_lack = true});
  columns.push_back({.name = kVariables, .option = "--format chat", .may_lack = true});
  for (const auto& [field, option] : texts_beside(options.chat, {options.input, options.target})) {
    if (std::ranges::find(columns, field, &WantedColumn::name) == columns.end())
      columns.push_back({.name = field, .option = option, .may_lack = true});
  }
  return columns;
}

/// What the plugin reads, of a file that stays as it was listed.
class UnchangedRows final : public Rows {
 public:
  UnchangedRows(OpenParquet& open, const SourceFile& file, const PrepareOptions& options)
      : file_(file), fd_(fs::open(file.path, O_RDONLY, Code::kData)) {
    check_unchanged(file_, fd_);
    rows_.reset(open(fd_.get(), file_, wanted_columns(options)));
  }

  bool next(Row& row) override {
    try {
      if (rows_->next(row)) return true;
    } catch (const Error&) {
      check_unchanged(file_, fd_);
      throw;
    }
    check_unchanged(file_, fd_);
    return false;
  }

  [[nodiscard]] std::uint64_t position() const override { return rows_->position(); }

 private:
  const SourceFile& file_;
  fs::Fd fd_;
  std::unique_ptr<Rows> rows_;
};

}  // namespace

std::unique_ptr<Rows> open_parquet(const SourceFile& file, const PrepareOptions& options) {
  if (packing_of(file.path) != Packing::kNone) {
    throw Error(Code::kData, "source '", file.path.string(),
                "' is a compressed Parquet file, which cannot be read in parts: decompress it "
                "first; Parquet compresses its columns by itself");
  }
  return std::make_unique<UnchangedRows>(plugin(), file, options);
}

void require_parquet() {
  static_cast<void>(plugin());
}

}  // namespace echelon::data
