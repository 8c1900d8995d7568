#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace echelon {

/// Identity of a tokenizer: CRC32C of its file's bytes in the upper half, their number in the lower.
/// Never 0. Needs no sentencepiece, so a loader checks it at the price of reading the file.
[[nodiscard]] std::uint64_t tokenizer_digest_of(std::string_view model_bytes);

/// Returns the digest of a file. Throws Error(kData) for a file that is missing, unreadable, empty, or larger
/// than 256 MiB.
[[nodiscard]] std::uint64_t tokenizer_digest(const std::filesystem::path& path);

/// Returns the name of a tokenizer's file beside token files and in checkpoints: "tokenizer.json" when its
/// bytes begin with '{', else "tokenizer.model" (sentencepiece).
[[nodiscard]] std::string tokenizer_file_name(std::string_view model_bytes);

/// The tokenizer in `folder`, empty when it holds none: tokenizer.json, from which transformers reads too,
/// else tokenizer.model, else spiece.model. These two come first where a run made tokenizer.json from the
/// model. Throws Error(kData): a file that cannot be read.
[[nodiscard]] std::filesystem::path find_tokenizer(const std::filesystem::path& folder);

/// `path` itself, or of a folder the tokenizer in it. Throws Error(kData) for a folder without one and for
/// what does not exist.
[[nodiscard]] std::filesystem::path tokenizer_file(const std::filesystem::path& path);

/// The bytes of a tokenizer's file, with the same errors.
[[nodiscard]] std::string read_tokenizer_model(const std::filesystem::path& path);

}  // namespace echelon
