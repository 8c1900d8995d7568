#pragma once
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace echelon {

/// Runs `work` on a thread of its own and returns when it is over, or after `seconds`: for what may meet a
/// file system that hangs, on threads that must not. What `work` uses must outlive it: give it copies.
template <class Work>
void run_within(double seconds, Work work) {
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> end = over->get_future();
  std::thread([over, work = std::move(work)] {
    work();
    over->set_value();
  }).detach();
  (void)end.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace echelon
