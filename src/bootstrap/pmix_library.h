#pragma once
#include <pmix.h>

namespace echelon {

/// What Echelon uses of libpmix.so.2 (PMIx 3.2 to 6), which no program is linked with. The macros of pmix.h
/// are not used: what they call differs between versions.
struct PmixLibrary {
  decltype(&::PMIx_Abort) abort;
  decltype(&::PMIx_Commit) commit;
  decltype(&::PMIx_Error_string) error_string;
  decltype(&::PMIx_Fence_nb) fence_nb;
  decltype(&::PMIx_Finalize) finalize;
  decltype(&::PMIx_Get) get;
  decltype(&::PMIx_Get_nb) get_nb;
  decltype(&::PMIx_Get_version) get_version;
  decltype(&::PMIx_Init) init;
  decltype(&::PMIx_Initialized) initialized;
  decltype(&::PMIx_Put) put;
};

/// The library, loaded by the first call: the file that ECHELON_PMIX names, else libpmix.so.2 as the loader
/// finds it, else the one beside mpirun. Thread-safe. Throws Error(kEnvironment) that says what to install.
[[nodiscard]] const PmixLibrary& pmix();

}  // namespace echelon
