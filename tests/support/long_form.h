#pragma once
#include <cstdlib>

namespace echelon::test {

/// Does a test that sweeps over many cases take all of them (./make.sh test --long)? Otherwise it takes a
/// share that has cases of every kind.
inline bool long_form() {
  return std::getenv("ECHELON_TEST_LONG") != nullptr;
}

}  // namespace echelon::test
