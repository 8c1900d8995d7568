#pragma once
#include <chrono>
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
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  std::future<void> end = task->get_future();
  try {
    std::thread([task] { (*task)(); }).detach();
  } catch (const std::system_error&) {  // no thread can be started: run it here, even if it blocks
    (*task)();
    return;
  }
  (void)end.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace echelon
