#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace echelon {

/// Identity of a tokenizer: CRC32C of the model file's bytes in the upper half, their number in the lower.
/// Never 0. Needs no sentencepiece, so a loader checks it at the price of reading the file.
[[nodiscard]] std::uint64_t tokenizer_digest_of(std::string_view model_bytes);

/// The same of a file. Throws Error(kData): missing, unreadable, empty, larger than 256 MiB.
[[nodiscard]] std::uint64_t tokenizer_digest(const std::filesystem::path& path);

/// The bytes of a tokenizer model file, with the same errors.
[[nodiscard]] std::string read_tokenizer_model(const std::filesystem::path& path);

}  // namespace echelon
