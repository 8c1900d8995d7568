#include "liveness/frame.h"

#include <algorithm>

namespace echelon {

void Frame::set_text(std::string_view value) {
  const std::size_t length = std::min(value.size(), sizeof(text) - 1);
  std::copy_n(value.data(), length, text);
  text[length] = '\0';
}

}  // namespace echelon
