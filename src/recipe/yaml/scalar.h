#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/number.h"
#include "recipe/keys/keys.h"

namespace echelon::recipe {

// Each returns what is wrong with a text, to be put after the text itself ("is not a number"), or "".

/// `true` or `false`.
[[nodiscard]] std::string read_bool(const std::string& text, bool& value);

[[nodiscard]] std::string range_problem(const IntegerRange& range, std::int64_t value);
[[nodiscard]] std::string range_problem(const NumberRange& range, double value);
/// Names the value that was meant when `text` is another trainer's word for it. `path` is the key's.
[[nodiscard]] std::string choice_problem(const std::string& path, const Choices& choices,
                                         const std::string& text);
[[nodiscard]] std::string text_problem(Text kind, const std::string& text);

/// The words a key of choices takes.
[[nodiscard]] std::vector<std::string> words_of(const Choices& choices);

/// The kinds of schedule that a phase of schedule.sequence may name.
[[nodiscard]] std::vector<std::string> phase_kinds();

/// "constant 500", or without a number "cosine": a phase of 0 steps.
[[nodiscard]] std::string read_phase(const std::string& text, SchedulePhase& phase);

}  // namespace echelon::recipe
