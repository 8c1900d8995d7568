#include "run/start_times.h"

#include "base/number.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "run/job_end.h"

namespace echelon {

StartTimes::StartTimes() : since_s_(process_began_s()) {
  const auto stated = seconds_in_environment("ECHELON_STARTED_AT");
  if (stated && *stated < since_s_) phases_.emplace_back("launch", since_s_ - *stated);
  done("libraries");
}

void StartTimes::done(const char* phase) {
  const double now = utc_now_s();
  phases_.emplace_back(phase, now - since_s_);
  since_s_ = now;
}

std::string StartTimes::describe() const {
  double all = 0;
  std::string text = "start:";
  for (std::size_t n = 0; n < phases_.size(); ++n) {
    const auto& [name, seconds] = phases_[n];
    text += str(n == 0 ? " " : ", ", name, " ", rounded(seconds, 2), n == 0 ? " s" : "");
    all += seconds;
  }
  return str(text, "; ", rounded(all, 2), " s in all");
}

}  // namespace echelon
