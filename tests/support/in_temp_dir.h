#pragma once
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace echelon::test {

/// Tests that have a fresh folder each: `using Nouns = InTempDir; TEST_F(Nouns, HaveAFact)`.
struct InTempDir : ::testing::Test {
  const TempDir dir;
};

}  // namespace echelon::test
