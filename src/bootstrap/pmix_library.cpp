#include "bootstrap/pmix_library.h"

#include "base/process/site_library.h"

namespace echelon {
namespace {

PmixLibrary load_pmix() {
  const LoadedLibrary library = load(
      {.name = "PMIx",
       .variable = "ECHELON_PMIX",
       .soname = "libpmix.so.2",
       .symbol = "PMIx_Init",
       .remedy = "install PMIx 3.2 to 6 (Debian, Ubuntu: apt-get install openmpi-bin) or load its module"});
  PmixLibrary pmix{};
  library.find(pmix.abort, "PMIx_Abort");
  library.find(pmix.commit, "PMIx_Commit");
  library.find(pmix.error_string, "PMIx_Error_string");
  library.find(pmix.fence_nb, "PMIx_Fence_nb");
  library.find(pmix.finalize, "PMIx_Finalize");
  library.find(pmix.get, "PMIx_Get");
  library.find(pmix.get_nb, "PMIx_Get_nb");
  library.find(pmix.get_version, "PMIx_Get_version");
  library.find(pmix.init, "PMIx_Init");
  library.find(pmix.initialized, "PMIx_Initialized");
  library.find(pmix.put, "PMIx_Put");
  return pmix;
}

}  // namespace

const PmixLibrary& pmix() {
  static const PmixLibrary library = load_pmix();
  return library;
}

}  // namespace echelon
