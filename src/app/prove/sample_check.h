#pragma once
#include "app/prove/differences.h"

namespace echelon::app {

/// Returns how many of a proof's samples break the rules of docs/data.md for the documents in
/// write_own_data()'s files: ids that are consecutive tokens of one document, each with the next one as its
/// target if that is trained; no target where the document ends; conversations whole; in an epoch no document
/// or window twice. Of a mixture nothing is checked: 0.
[[nodiscard]] Difference of_samples(const Recipe& recipe);

}  // namespace echelon::app
