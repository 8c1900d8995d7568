#pragma once
#include <string>
#include <string_view>

namespace echelon {

/// Writes events in the Trace Event Format, which Perfetto and chrome://tracing open. Times in microseconds.
class TraceEvents {
 public:
  void name_process(int process, std::string_view name);
  void name_lane(int process, int lane, std::string_view name);
  /// A span ("X"). Spans of one lane must nest. `arguments`: a JSON object; empty: none.
  void add(int process, int lane, std::string_view category, std::string_view name, double begin_us,
           double duration_us, const std::string& arguments = {});

  /// The events so far, separated by commas: pieces of several writers can be joined by commas, too.
  [[nodiscard]] const std::string& events() const { return events_; }
  /// The texts before and behind the events in a file.
  static constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  static constexpr std::string_view kTail = "\n]}\n";

 private:
  void append(const std::string& event);
  std::string events_;
};

}  // namespace echelon
