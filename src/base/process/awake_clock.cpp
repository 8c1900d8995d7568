#include "base/process/awake_clock.h"

#include <chrono>

#include "base/steady_time.h"

namespace echelon {

AwakeClock::AwakeClock() : watch_([this] { watch(); }) {}

AwakeClock::~AwakeClock() {
  {
    const Lock lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  watch_.join();
}

double AwakeClock::now_s() const {
  const Lock lock(mutex_);
  const double now_s = steady_now_s();
  lost_s_ += standstill_.lost_s(now_s);
  return now_s - lost_s_;
}

void AwakeClock::watch() const {
  constexpr std::chrono::milliseconds kRound{100};
  Lock lock(mutex_);
  while (!ended_.wait_for(lock, kRound, [this]() ECHELON_REQUIRES(mutex_) { return over_; }))
    lost_s_ += standstill_.lost_s(steady_now_s());
}

}  // namespace echelon
