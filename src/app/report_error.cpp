#include "app/report_error.h"

#include "base/log.h"
#include "base/str.h"

namespace echelon::app {

int report_error(const Error& error, const std::string& where) {
  if (!error.is_reported()) log::error(str("echelon: ", where, where.empty() ? "" : ": ", error.what()));
  log::flush();
  return static_cast<int>(error.code());
}

}  // namespace echelon::app
