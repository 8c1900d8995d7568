#pragma once
#include <algorithm>
#include <string>

#include "base/str.h"
#include "data/loader.h"
#include "support/in_temp_dir.h"
#include "unit/data/fixtures.h"

namespace echelon::testing {

using test::InTempDir;

/// The samples of a token file, in its order.
inline DataOptions in_order(const std::filesystem::path& path, std::int64_t seq_len,
                            Packing packing = Packing::kStream) {
  return {.path = path.string(), .seq_len = seq_len, .packing = packing, .shuffle = false};
}

/// What is said of the token file of data that cannot be opened, by a model of `vocabulary` ids.
inline std::string refused(const DataOptions& options, std::int64_t vocabulary = 300) {
  const std::string text = message_of([&] { (void)make_loader(options, vocabulary, 1); });
  const std::string front = str("token file '", options.path, "'");
  EXPECT_EQ(text.substr(0, front.size()), front);
  return text.substr(std::min(front.size(), text.size()));
}

}  // namespace echelon::testing
