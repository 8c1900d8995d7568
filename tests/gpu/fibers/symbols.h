#pragma once
#include <cstddef>
#include <string>
#include <vector>

/// The names of this program's functions and variables, read from its own file.
namespace echelon::fibers {

struct Symbol {
  std::size_t begin = 0;
  std::size_t bytes = 0;
  std::string name;  ///< demangled
  bool function = false;
};

/// Sorted by address.
[[nodiscard]] const std::vector<Symbol>& symbols();
/// The one that holds this address; null: none.
[[nodiscard]] const Symbol* symbol_at(const void* address);
/// Is this address in what the program can only read?
[[nodiscard]] bool is_constant(const void* address);

}  // namespace echelon::fibers
