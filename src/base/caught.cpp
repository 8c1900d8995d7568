#include "base/caught.h"

#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

namespace echelon {

std::string caught() noexcept {
  // No allocation: these texts fit into std::string's own buffer (15 characters).
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return "out of memory";
    } catch (const std::filesystem::filesystem_error& e) {
      if (e.path1().empty()) return e.what();
      return "'" + e.path1().string() + "': " + e.code().message();
    } catch (const std::system_error& e) {
      if (e.code() != std::errc::resource_unavailable_try_again) return e.what();
      return "cannot start a thread: raise the limit of processes (ulimit -u, pids.max of a container) or of "
             "memory";
    } catch (const std::exception& e) {
      const std::string_view text = e.what();  // PyTorch's c10::Error has stack frames in what()
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
