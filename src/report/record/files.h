#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "report/record/missing.h"

/// Reading files of a run folder, whose content may be anything. Not for public headers.
namespace echelon::report {

/// Content of a regular file; nothing, with a sentence in `missing`, for one that cannot be read or is
/// larger. A file that does not exist gives nothing, and no sentence.
[[nodiscard]] std::optional<std::string> read_if_there(const fs::Path& file, std::uint64_t max_bytes,
                                                       Missing& missing);
/// Reads a file as JSON; null if there is none.
[[nodiscard]] nlohmann::json read_json_if_there(const fs::Path& file, std::uint64_t max_bytes,
                                                Missing& missing);
/// The beginning and the end of a file that may be long: at most `head` and `tail` bytes, cut at ends of
/// lines. Empty for a file that cannot be read.
struct HeadAndTail {
  std::string head;
  std::string tail;  ///< empty when `head` is all
};
[[nodiscard]] HeadAndTail read_ends(const fs::Path& file, std::uint64_t head, std::uint64_t tail,
                                    Missing& missing);
/// Names in a folder, sorted; none when it does not exist.
[[nodiscard]] std::vector<std::string> names_in(const fs::Path& folder, Missing& missing);
/// Returns when a regular file was changed last, in seconds since 1970; nothing for anything else.
[[nodiscard]] std::optional<double> changed_at(const fs::Path& file);

/// A member that is a finite number, a text; else nothing. `object` may be any value.
[[nodiscard]] std::optional<double> number_in(const nlohmann::json& object, const char* name);
[[nodiscard]] std::string text_in(const nlohmann::json& object, const char* name);
/// The member, or null.
[[nodiscard]] const nlohmann::json& member_of(const nlohmann::json& object, const char* name);
/// A number at a JSON pointer: "/memory/peak_bytes".
[[nodiscard]] std::optional<double> number_at(const nlohmann::json& object, const char* pointer);

/// Calls `take` for each line.
template <class Take>
void each_line(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    take(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace echelon::report
