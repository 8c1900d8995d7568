#pragma once

namespace echelon::app {

/// Address of `symbol` in libechelon_engine.so, which is loaded on first use: from the program's folder, else
/// from ../lib. Thread-safe. Throws Error(kEnvironment) with the file and the loader's message.
[[nodiscard]] void* engine_symbol(const char* symbol);

template <class Function>
[[nodiscard]] Function* engine_function(const char* symbol) {
  return reinterpret_cast<Function*>(engine_symbol(symbol));
}

}  // namespace echelon::app
