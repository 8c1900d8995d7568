#pragma once
#include <string>
#include <vector>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

// The functions that read or check a text return its problem, worded to follow the text ("is not a number"),
// or "".

/// Accepts only `true` and `false`; other spellings are refused with the right one.
[[nodiscard]] std::string read_bool(const std::string& text, bool& value);

/// If `text` is another trainer's word for a value, the problem names our word. `path`: the key.
[[nodiscard]] std::string choice_problem(const std::string& path, const Choices& choices,
                                         const std::string& text);
[[nodiscard]] std::string text_problem(Text kind, const std::string& text);

/// The words that `choices` allows.
[[nodiscard]] std::vector<std::string> words_of(const Choices& choices);

/// The kinds of schedule allowed in a phase of schedule.sequence.
[[nodiscard]] std::vector<std::string> phase_kinds();

/// Reads "constant 500". Without a number ("cosine") the phase has 0 steps: it lasts to the end of the run.
[[nodiscard]] std::string read_phase(const std::string& text, SchedulePhase& phase);

}  // namespace echelon::recipe
