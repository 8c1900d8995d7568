#pragma once
#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace echelon {

/// Runs `work` on a thread of its own and returns when it is over, or after `seconds`: for what may meet a
/// file system that hangs, on threads that must not. What `work` uses must outlive it: give it copies.
template <class Work>
void run_within(double seconds, Work work) {
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> end = over->get_future();
  try {
    std::thread([over, work] {
      work();
      over->set_value();
    }).detach();
  } catch (const std::system_error&) {  // no thread is to be had: better late than not at all
    work();
    return;
  }
  (void)end.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace echelon
