#include "app/plugin.h"

#include <dlfcn.h>

#include <string_view>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/process/cores.h"
#include "base/process/plugin.h"
#include "base/process/process.h"
#include "base/process/python_package.h"

namespace echelon::app {
namespace {

constexpr const char* kEngine = "libechelon_engine.so";
constexpr const char* kInstallTorch = "install it (python3 -m pip install torch==" ECHELON_TORCH_VERSION
                                      ") or set ECHELON_TORCH to the folder 'torch' of an installation";

/// Throws Error(kEnvironment) if the package is not of the version that this build needs. Its C++ functions
/// have the same names in other versions, with other meanings.
void require_version(const std::filesystem::path& torch) {
  if (!std::filesystem::exists(torch / "version.py")) {
    throw Error(Code::kEnvironment, "'", torch.string(),
                "' is no installation of PyTorch (no version.py): ", kInstallTorch);
  }
  const std::string text = fs::read_file(torch / "version.py", 1 << 16, Code::kEnvironment);
  constexpr std::string_view kBefore = "__version__ = '";
  const std::size_t at = text.find(kBefore);
  const std::size_t begin = at + kBefore.size();
  const std::string version =
      at == text.npos ? "?" : text.substr(begin, text.find_first_of("'+", begin) - begin);
  if (version == ECHELON_TORCH_VERSION) return;
  throw Error(Code::kEnvironment, "'", torch.string(), "' is PyTorch ", version,
              ", expected " ECHELON_TORCH_VERSION ": ", kInstallTorch);
}

/// Loads libtorch by its path, so that the engine finds it by its name.
void load_torch(const std::filesystem::path& torch) {
  require_version(torch);
  // OpenMP's runtime first, or the system's own would be taken.
  for (const char* name : {"libgomp.so.1", "libc10.so", "libtorch_cpu.so"}) {
    const std::filesystem::path file = torch / "lib" / name;
    std::string why;
    if (!std::filesystem::exists(file) || open_library(file, why) != nullptr) continue;
    throw Error(Code::kEnvironment, "PyTorch in '", torch.string(), "' cannot be loaded: ", why,
                "; install it with what it depends on (python3 -m pip install "
                "torch==" ECHELON_TORCH_VERSION ")");
  }
}

void* load_engine() {
  // OpenMP reads its environment when its library is loaded, which the engine's load does.
  let_idle_threads_sleep();
  const std::string named = environment_variable("ECHELON_TORCH");
  const bool chosen = !named.empty();
  if (chosen) load_torch(named);
  const std::filesystem::path engine = plugin_path(kEngine);
  std::string why;
  void* handle = open_library(engine, why);
  // A build knows its libtorch's place, a released folder does not.
  if (handle == nullptr && !chosen && why.starts_with("lib") && why.find("cannot open shared") != why.npos &&
      std::filesystem::exists(engine)) {
    const auto torch = find_python_package("torch");
    if (!torch) {
      throw Error(Code::kEnvironment, "PyTorch " ECHELON_TORCH_VERSION ", whose libraries train, is not ",
                  kPythonPlaces, ": ", kInstallTorch, " (", why, ")");
    }
    load_torch(*torch);
    handle = open_library(engine, why);
  }
  if (handle == nullptr) {
    throw Error(Code::kEnvironment, "cannot load the training engine: ", why,
                "; build it (./make.sh build) or keep bin/ and lib/ together");
  }
  // Whatever the loader found by itself, such as in LD_LIBRARY_PATH. What docker/collect.sh leaves of PyTorch
  // has no version.
  const auto torch = loaded_file("libtorch_cpu.so").parent_path().parent_path();
  if (std::filesystem::exists(torch / "version.py")) require_version(torch);
  return handle;
}

}  // namespace

void* engine_symbol(const char* symbol) {
  static void* const engine = load_engine();
  void* address = dlsym(engine, symbol);
  if (address == nullptr) {
    throw Error(Code::kEnvironment, plugin_path(kEngine).string(), " has no '", symbol,
                "': it is from a different version than this program; build both together");
  }
  return address;
}

}  // namespace echelon::app
