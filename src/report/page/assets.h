#pragma once

namespace echelon::report {

/// page/style.css and page/script.js, compiled in.
extern const char kStyle[];
extern const char kScript[];

}  // namespace echelon::report
