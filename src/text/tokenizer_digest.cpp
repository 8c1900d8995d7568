#include "text/tokenizer_digest.h"

#include <span>
#include <string>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"

namespace echelon {

std::uint64_t tokenizer_digest_of(std::string_view model_bytes) {
  const std::uint64_t crc = crc32c(model_bytes);
  return (crc << 32) | (model_bytes.size() & 0xffffffffU);
}

std::string tokenizer_file_name(std::string_view model_bytes) {
  // 0x7B would be a group in a protocol buffer, which a sentencepiece model does not have.
  return model_bytes.starts_with('{') ? "tokenizer.json" : "tokenizer.model";
}

std::filesystem::path find_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.model", "spiece.model", "tokenizer.json"}) {
    if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  return {};
}

std::string read_tokenizer_model(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(Code::kData, str("tokenizer '", path.string(),
                                 "' does not exist: name the tokenizer.model or tokenizer.json that `echelon "
                                 "prepare` wrote beside the token file"));
  }
  std::string bytes =
      in_context("tokenizer", [&] { return fs::read_file(path, std::uint64_t{256} << 20, Code::kData); });
  if (bytes.empty()) throw Error(Code::kData, str("tokenizer '", path.string(), "' is empty"));
  return bytes;
}

std::uint64_t tokenizer_digest(const std::filesystem::path& path) {
  return tokenizer_digest_of(read_tokenizer_model(path));
}

}  // namespace echelon
