#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace echelon {

/// Joins its arguments with operator<<: str("step ", 4) == "step 4". Throws std::bad_alloc when out of
/// memory; by default a stream would swallow that and truncate the text.
template <class... Parts>
[[nodiscard]] std::string str(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios::badbit);
  (out << ... << parts);
  return out.str();
}

/// What `of`, a function or a member, makes of each item.
template <class As = void, class Items, class Of>
[[nodiscard]] auto mapped(const Items& items, const Of& of) {
  using Made = std::decay_t<decltype(std::invoke(of, *std::begin(items)))>;
  std::vector<std::conditional_t<std::is_void_v<As>, Made, As>> all;
  for (const auto& item : items) all.emplace_back(std::invoke(of, item));
  return all;
}

/// {"a","b"} joined by ", " -> "a, b".
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// "a,b," at ',' -> {"a","b"}: as std::getline, a separator at the end begins no part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// `text` with `content` wherever `pattern`, which is not empty, stands.
[[nodiscard]] std::string replace_all(std::string_view text, std::string_view pattern,
                                      std::string_view content);

/// Formats bytes for people: 1536 -> "1.5 KiB"; what is below 0 as "0 B". Files and JSON carry plain bytes.
[[nodiscard]] std::string human_bytes(double bytes);

/// "1 rank", "3 ranks", "2 passes".
template <std::integral Count>
[[nodiscard]] std::string counted(Count count, std::string_view noun) {
  return str(count, ' ', noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

/// 12345678 -> "12,345,678".
[[nodiscard]] std::string human_count(std::uint64_t count);

/// The lowest `count` hex digits of `value`, in lower case: hex_digits(255, 4) == "00ff".
[[nodiscard]] std::string hex_digits(std::uint64_t value, std::size_t count);

/// `text` out of a file, fit for a one-line message: foreign_text() of it, cut with "..." after the
/// character that contains byte `max`.
[[nodiscard]] std::string printable(std::string_view text, std::size_t max = 80);

/// Levenshtein distance, for did-you-mean.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or "" when all are too far (distance > max(2, length/3)).
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace echelon
