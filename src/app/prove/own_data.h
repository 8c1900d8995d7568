#pragma once
#include <cstdint>
#include <filesystem>

#include "app/prove/differences.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// Puts files of random tokens in the place of those that `data` names, of the same form: documents or pairs
/// of very different lengths, among them such as fill no sequence, several, and a single token; conversations
/// of which turns, all or nothing is trained, none longer than a sequence. So few that runs go through them
/// more than once. Synthetic data stay. Throws Error(kData) if a file cannot be written.
void write_own_data(DataOptions& data, std::int64_t vocabulary, const std::filesystem::path& folder);

/// Returns how many of a proof's samples break the rules of docs/data.md for the documents in
/// write_own_data()'s files: ids that are consecutive tokens of one document, each with the next one as its
/// target if that is trained; no target where the document ends; conversations whole; in an epoch no document
/// or window twice. Of a mixture nothing is checked: 0.
[[nodiscard]] Difference of_samples(const Recipe& recipe);

}  // namespace echelon::app
