#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "comm/activity.h"
#include "forecast/trace.h"

namespace echelon::book {

/// The record of the bookkeeping device. For one thread, except work().
class Books {
 public:
  /// Forgets everything, groups too.
  void restart();
  /// Starts a new trace. `activity`: what the engine is at, which becomes Work::place. `peak_bytes`: the most
  /// bytes of tensors so far; its last increase becomes Trace::peak.
  void begin(std::shared_ptr<Activity> activity, std::function<std::int64_t()> peak_bytes);
  /// The trace since begin(); records nothing from now on.
  [[nodiscard]] forecast::Trace end();

  /// The properties of the works that a thread records from now on.
  struct Circumstances {
    double seconds = 0;      ///< each takes so long
    double before_s = 0;     ///< and begins so long after the previous one
    std::int64_t tasks = 0;  ///< Work::tasks
  };
  /// Returns the circumstances of this thread.
  [[nodiscard]] static Circumstances& here();
  /// From now on, works belong to one of `tasks` tasks that are divided among threads (Work::tasks).
  void begin_tasks(std::int64_t tasks);
  void end_tasks();

  /// Records an operation. May be called from any thread. `head_size`: of attention.
  void work(std::string_view name, forecast::Cost cost, DType type, double flops, double bytes,
            bool on_host = false, std::int64_t head_size = 0);
  /// A message of a time when nothing was recorded.
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();
  /// Returns the number by which the message is waited for.
  std::uint32_t issue(forecast::Message message, std::string_view label);
  void wait(std::uint32_t message);
  /// The host waits until the current stream has done everything.
  void sync();

  // Streams of the device.
  [[nodiscard]] std::uint8_t stream() const { return stream_; }
  void use_stream(std::uint8_t stream) { stream_ = stream; }
  /// The position of a stream now, by a number.
  [[nodiscard]] std::uint32_t mark(std::uint8_t stream);
  void hold(std::uint8_t stream, std::uint32_t mark);
  void hold_host(std::uint32_t mark);
  [[nodiscard]] std::uint16_t add_group(forecast::Group group);

 private:
  [[nodiscard]] std::uint16_t name_of(std::string_view name);
  void add(forecast::Event event);
  void look_where();

  Mutex mutex_;  ///< works of several threads
  bool open_ = false;
  forecast::Trace trace_;
  std::vector<forecast::Group> groups_;
  std::map<std::string, std::uint16_t, std::less<>> names_;
  std::map<std::string, std::uint16_t, std::less<>> places_;
  std::shared_ptr<Activity> activity_;
  std::function<std::int64_t()> peak_bytes_;
  std::int64_t peak_ = 0;
  /// The latest work for which all threads wait, in the order of all works of the process.
  struct Latest {
    std::uint64_t number = 0;
    std::uint16_t name = 0;
  };
  [[nodiscard]] std::uint16_t follow(std::uint16_t name, bool divided);
  std::size_t first_of_tasks_ = 0;
  std::uint64_t works_ = 0;  ///< of all traces
  Latest whole_;
  std::uint16_t place_ = 0;
  std::uint8_t stream_ = 0;
  Doing doing_ = Doing::kStarting;
};

/// Process-wide, as the kernels that write to it.
[[nodiscard]] Books& books();

}  // namespace echelon::book
