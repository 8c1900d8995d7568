#include "app/plugin.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/process/cores.h"
#include "base/process/plugin.h"
#include "base/str.h"

namespace echelon::app {
namespace {

constexpr const char* kEngine = "libechelon_engine.so";

void* load_engine() {
  // OpenMP reads its environment when its library is loaded, which the engine's load does.
  let_idle_threads_sleep();
  void* handle = dlopen(plugin_path(kEngine).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(Code::kEnvironment, str("cannot load the training engine: ", dlerror(),
                                        "; build it (./make.sh build) or keep bin/ and lib/ together"));
  }
  return handle;
}

}  // namespace

void* engine_symbol(const char* symbol) {
  static void* const engine = load_engine();
  void* address = dlsym(engine, symbol);
  if (address == nullptr) {
    throw Error(Code::kEnvironment,
                str(plugin_path(kEngine).string(), " has no '", symbol,
                    "': it is from a different version than this program; build both together"));
  }
  return address;
}

}  // namespace echelon::app
