#include "base/caught.h"

#include <exception>
#include <new>
#include <string_view>

namespace echelon {

std::string caught() noexcept {
  // These words need no memory: a std::string keeps so few characters in itself.
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return "out of memory";
    } catch (const std::exception& e) {
      const std::string_view text = e.what();  // some bring a page of stack frames along
      if (!text.empty()) return std::string(text.substr(0, text.find('\n')));
      return "unknown error";
    } catch (...) {
      return "unknown error";
    }
  } catch (...) {
    return "out of memory";
  }
}

}  // namespace echelon
