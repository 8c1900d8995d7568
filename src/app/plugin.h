#pragma once
#include <string>

namespace echelon::app {

/// Address of `symbol` in libechelon_engine.so, which lies in ../lib beside this program's folder (or beside
/// it) and is loaded on first use. Throws Error(kEnvironment) that names the file and what the loader said.
[[nodiscard]] void* engine_symbol(const char* symbol);

template <class Function>
[[nodiscard]] Function* engine_function(const char* symbol) {
  return reinterpret_cast<Function*>(engine_symbol(symbol));
}

}  // namespace echelon::app
