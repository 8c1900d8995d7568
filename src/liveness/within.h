#pragma once
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace echelon {

/// Runs `work` on a separate thread and returns when it is done, at the latest after `seconds`. For file
/// access, which may hang, on threads that must not. `work` may outlive the call, so it must own everything
/// that it uses. What it throws is dropped.
template <class Work>
void run_within(double seconds, Work work) {
  const auto attempt = [work = std::move(work)] {
    try {
      work();
    } catch (const std::exception&) {  // on a thread of its own it would end the process
    }
  };
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> end = over->get_future();
  try {
    std::thread([over, attempt] {
      attempt();
      over->set_value();
    }).detach();
  } catch (const std::system_error&) {  // no thread can be started: run it here, even if it blocks
    attempt();
    return;
  }
  (void)end.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace echelon
