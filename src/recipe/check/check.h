#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "recipe/check/faults.h"
#include "recipe/recipe.h"

namespace echelon::recipe {

/// A conflict between keys whose values are each valid on their own.
struct Conflict {
  std::vector<std::string> keys;  ///< the keys involved; the first is the one to change
  std::string text;               ///< one line: what is wrong, what was expected, what to do
};

/// The conflicts that were found so far.
struct Conflicts {
  std::vector<Conflict> all;
  /// `parts` together are the text.
  template <class... Parts>
  void add(std::vector<std::string> keys, const Parts&... parts) {
    all.push_back({std::move(keys), str(parts...)});
  }
};

/// The multiples of `unit` next to `value`: "768 or 780". The first two multiples if none is below `value`.
[[nodiscard]] std::string nearest_multiples(std::int64_t value, std::int64_t unit);

/// The divisors of `value`, at most twenty of them: "1, 2, 3, 6".
[[nodiscard]] std::string divisors_of(std::int64_t value);

/// All conflicts that can be found without the number of ranks: model arithmetic, missing file names,
/// schedule, batch, sizes that overflow, contradicting options. Reads no files.
[[nodiscard]] std::vector<Conflict> conflicts(const Recipe& recipe);

/// What advice to remove a key says more if the key stands in another text than `here`, where the conflict is
/// reported, such as in a base: how to unset it from here. Else "". `given`: where each key stands.
[[nodiscard]] std::string how_to_unset(const Conflict& conflict, const std::map<std::string, Position>& given,
                                       const Position& here, const Sources& sources);

}  // namespace echelon::recipe
