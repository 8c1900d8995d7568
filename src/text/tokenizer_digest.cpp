#include "text/tokenizer_digest.h"

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/model_name.h"
#include "text/sentencepiece/sentencepiece_json.h"

namespace echelon {
namespace {

constexpr std::uint64_t kLargestModel = std::uint64_t{256} << 20;

/// Whether a run that trained with the sentencepiece model made the tokenizer.json beside it.
bool is_made_from(const std::filesystem::path& model, const std::filesystem::path& json) {
  const std::string text = fs::read_file(json, kLargestModel, Code::kData);
  try {
    const std::string pieces = fs::read_file(model, kLargestModel, Code::kData);
    return text == data::tokenizer_json_of(pieces, false) || text == data::tokenizer_json_of(pieces, true);
  } catch (const Error&) {
    return false;  // no model that loads
  }
}

}  // namespace

std::uint64_t tokenizer_digest_of(std::string_view model_bytes) {
  const std::uint64_t crc = crc32c(model_bytes);
  return (crc << 32) | (model_bytes.size() & 0xffffffffU);
}

std::string tokenizer_file_name(std::string_view model_bytes) {
  // 0x7B would be a group in a protocol buffer, which a sentencepiece model does not have.
  // A byte order mark in front is refused when it is parsed, by name.
  const bool json = model_bytes.starts_with('{') || model_bytes.starts_with("\xEF\xBB\xBF{");
  return json ? "tokenizer.json" : "tokenizer.model";
}

std::filesystem::path find_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path model;
  for (const char* name : {"tokenizer.model", "spiece.model"}) {
    if (model.empty() && std::filesystem::exists(folder / name, ignored)) model = folder / name;
  }
  const std::filesystem::path json = folder / "tokenizer.json";
  if (!std::filesystem::exists(json, ignored)) return model;
  return model.empty() || !is_made_from(model, json) ? json : model;
}

std::filesystem::path tokenizer_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    if (std::filesystem::path file = find_tokenizer(path); !file.empty()) return file;
    throw Error(Code::kData, "folder '", path.string(),
                "' holds no tokenizer: expected tokenizer.json, tokenizer.model or "
                "spiece.model in it; name the tokenizer's file");
  }
  if (std::filesystem::exists(path, ignored)) return path;
  std::string advice = fs::download_advice(path, "");
  if (advice.empty())
    advice = "name the tokenizer.model or tokenizer.json that `echelon prepare` wrote beside the token file";
  throw Error(Code::kData, "tokenizer '", path.string(), "' does not exist: ", advice);
}

std::string read_tokenizer_model(const std::filesystem::path& given) {
  const std::filesystem::path path = tokenizer_file(given);
  std::string bytes =
      in_context("tokenizer", [&] { return fs::read_file(path, kLargestModel, Code::kData); });
  if (bytes.empty()) throw Error(Code::kData, "tokenizer '", path.string(), "' is empty");
  return bytes;
}

std::uint64_t tokenizer_digest(const std::filesystem::path& path) {
  return tokenizer_digest_of(read_tokenizer_model(path));
}

}  // namespace echelon
