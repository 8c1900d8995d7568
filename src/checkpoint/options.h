#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe section `checkpoint`.
struct CheckpointOptions {
  std::int64_t every_steps = 1000;  ///< 0: only at the end and on a stop signal
  std::int64_t keep_last = 3;       ///< older committed ones are removed; 0 keeps all
  bool async = false;               ///< must be false in this version: a save ends before training goes on
  std::string resume =
      "auto";  ///< auto: newest committed one if any | never: refuse a run folder that has one | must
};

}  // namespace echelon
