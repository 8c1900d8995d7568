#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace echelon::data {

/// Why sentencepiece must not have this table (as below), or "": it follows a table without looking where it
/// leads. Every unit that a path could lead to is checked, reached or not, and so is what it points at.
[[nodiscard]] std::string normalizer_table_problem(std::string_view table);

/// Calls `rule(from, to)` for every rule of the table that a sentencepiece model carries for its normalizer:
/// of the rules whose `from` begins what is left of a text, the longest replaces it by `to`. The table is a
/// u32 size, a double array of that many bytes (darts-clone's) and texts that end with a zero byte; all
/// little-endian. False when it is anything else; some rules may have been told by then.
[[nodiscard]] bool for_each_rule(std::string_view table,
                                 const std::function<void(std::string_view from, std::string_view to)>& rule);

}  // namespace echelon::data
