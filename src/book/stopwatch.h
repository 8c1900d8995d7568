#pragma once

/// Times works, each with what its thread did since the previous one: reaching the operation, autograd,
/// memory. Any thread; times are of steady_now_s().
namespace echelon::book::stopwatch {

/// Nothing before now counts for any work.
void restart();
/// Seconds of this thread since its previous work, or since the latest work that was not divided among
/// threads. Time that was set aside does not count.
[[nodiscard]] double since_previous(double now_s);
/// A work of this thread has ended, and was recorded.
void ended();
/// Excludes `seconds` that this thread spent on something that does not count.
void set_aside(double seconds);
/// The sum of the seconds set aside since the previous work.
[[nodiscard]] double aside_s();

}  // namespace echelon::book::stopwatch
