#pragma once
#include <optional>
#include <string>
#include <string_view>

/// The alphabet of byte-level tokenizers (GPT-2): each byte is written as one printable character, the byte
/// itself where it is printable in Latin-1, else a character from U+0100 on ('Ġ' for a space).
namespace echelon::data {

/// The character of `byte`, in UTF-8.
[[nodiscard]] std::string byte_character(unsigned char byte);

/// The bytes that the characters of `token` stand for; nothing when one of them stands for none.
[[nodiscard]] std::optional<std::string> bytes_of(std::string_view token);

}  // namespace echelon::data
