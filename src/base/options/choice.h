#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <type_traits>

namespace echelon {

/// The words of an enum class, in the order of its values, which count from 0. Specialized beside the enum:
///
///     enum class Packing : std::uint8_t { kStream, kDocuments, kPad };
///     template <>
///     inline constexpr std::array kWords<Packing>{std::string_view("stream"), ...};
///
/// Recipes, files and messages know a choice by this word; code knows it by its value only.
template <class Choice>
inline constexpr std::array<std::string_view, 0> kWords{};

/// An enum class with words. Its values fit a byte.
template <class Choice>
concept HasWords = std::is_enum_v<Choice> && sizeof(Choice) == 1 && !kWords<Choice>.empty();

/// Throws std::out_of_range for a value that the enum does not name.
template <HasWords Choice>
[[nodiscard]] constexpr std::string_view word_of(Choice choice) {
  return kWords<Choice>.at(static_cast<std::size_t>(choice));
}

/// The choice of this word; nothing when there is none.
template <HasWords Choice>
[[nodiscard]] constexpr std::optional<Choice> choice_of(std::string_view word) {
  for (std::size_t i = 0; i < kWords<Choice>.size(); ++i) {
    if (kWords<Choice>[i] == word) return static_cast<Choice>(i);
  }
  return std::nullopt;
}

}  // namespace echelon
