#include "bootstrap/hidden_pmix.h"

#include <dlfcn.h>
#include <pmix.h>

#include <cstdlib>

namespace {

// A flag in the environment: the program and the engine it loads each have a copy of this library, and the
// loader resolves PMIx_Initialized to the program's copy for everybody.
constexpr const char* kHidden = "ECHELON_PMIX_HIDDEN";

}  // namespace

/// Interposes PMIx's own function, for this process and all its libraries.
extern "C" int PMIx_Initialized(void) {
  using Function = int (*)();
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "PMIx_Initialized"));
  return std::getenv(kHidden) != nullptr || real == nullptr ? 0 : real();
}

namespace echelon {

HiddenPmix::HiddenPmix() {
  ::setenv(kHidden, "1", 1);
}

HiddenPmix::~HiddenPmix() {
  ::unsetenv(kHidden);
}

}  // namespace echelon
