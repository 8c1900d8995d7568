#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::app {

/// A text of a file.
struct OwnDocument {
  std::vector<std::int64_t> ids;
  std::vector<bool> trained;  ///< of each; all but in a conversation
};

/// Puts files of random tokens in the place of those that `data` names, of the same form: documents or pairs
/// of very different lengths, among them such as fill no sequence, several, and a single token; conversations
/// of which turns, all or nothing is trained, none longer than a sequence. So few that runs go through them
/// more than once. Synthetic data stay. Throws Error(kData) if a file cannot be written.
void write_own_data(DataOptions& data, std::int64_t vocabulary, const std::filesystem::path& folder);

/// The documents of the file that it wrote as `path`; source and target of pairs one after the other.
[[nodiscard]] std::vector<OwnDocument> own_documents(const DataOptions& data,
                                                     const std::filesystem::path& path,
                                                     std::int64_t vocabulary);

}  // namespace echelon::app
