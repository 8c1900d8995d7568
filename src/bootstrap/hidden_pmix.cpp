#include "bootstrap/hidden_pmix.h"

#include <dlfcn.h>
#include <pmix.h>

#include <cstdlib>

namespace {

// In the environment, because a program and the engine that it loads each have a copy of this library, and
// the loader gives everybody the program's function.
constexpr const char* kHidden = "ECHELON_PMIX_HIDDEN";

}  // namespace

/// In front of PMIx's own, for this process and all its libraries.
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
