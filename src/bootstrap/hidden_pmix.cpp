#include "bootstrap/hidden_pmix.h"

#include <cstdlib>

#include "base/error.h"
#include "bootstrap/pmix_library.h"

namespace {

// A flag in the environment: the program and the engine it loads each have a copy of this library, and the
// loader resolves PMIx_Initialized to the program's copy for everybody.
constexpr const char* kHidden = "ECHELON_PMIX_HIDDEN";

}  // namespace

/// Interposes PMIx's own function, for this process and all its libraries. PMIx that cannot be loaded is not
/// initialized either.
extern "C" int PMIx_Initialized(void) try {
  return std::getenv(kHidden) != nullptr ? 0 : echelon::pmix().initialized();
} catch (const echelon::Error&) {
  return 0;
}

namespace echelon {

HiddenPmix::HiddenPmix() {
  ::setenv(kHidden, "1", 1);
}

HiddenPmix::~HiddenPmix() {
  ::unsetenv(kHidden);
}

}  // namespace echelon
