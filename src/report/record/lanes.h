#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "report/record/missing.h"

namespace echelon::report {

/// The work of each rank in some steps, on lanes: profile/lanes.json of a profiled run.
struct Lanes {
  struct Span {
    double begin_us = 0;
    double duration_us = 0;
    std::string label;  ///< the unit
  };
  struct Lane {
    std::string name;  ///< "compute", "gather", ...
    std::vector<Span> spans;
  };
  struct Rank {
    std::int64_t rank = 0;
    std::string host;
    std::vector<Lane> lanes;
  };
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::vector<Rank> ranks;  ///< empty: no profile
};

[[nodiscard]] Lanes read_lanes(const fs::Path& run, Missing& missing);

}  // namespace echelon::report
