#pragma once
#include <string>

namespace echelon {

/// A library of the site, such as its MPI. Programs are not linked with it: they load it on first use.
struct SiteLibrary {
  std::string name;      ///< for messages: "Open MPI"
  std::string variable;  ///< environment variable that may name the file, and is then the only one tried
  std::string soname;    ///< searched in LD_LIBRARY_PATH and the system's folders, then beside mpirun
  std::string symbol;    ///< what tells this library from others with the same soname
  std::string remedy;    ///< what to install, for messages
};

/// A library that was loaded, or the reason why not. A process loads a file once, whoever asks.
struct LoadedLibrary {
  void* handle = nullptr;  ///< of dlopen; null: not loaded
  std::string why;         ///< the reason, if not loaded

  /// Address of a symbol. Throws Error(kEnvironment) if the library is not loaded or lacks the symbol.
  [[nodiscard]] void* symbol(const char* name) const;
  template <class Pointer>
  void find(Pointer& address, const char* name) const {
    address = reinterpret_cast<Pointer>(symbol(name));
  }
};

/// Loads the library for the whole process (RTLD_GLOBAL), because its own plugins look for its symbols there.
/// Thread-safe; never throws.
[[nodiscard]] LoadedLibrary load(const SiteLibrary& library);

}  // namespace echelon
