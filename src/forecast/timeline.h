#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "forecast/trace.h"

namespace echelon::forecast {

/// The lanes of a rank; operations of different lanes run side by side.
enum class Lane : std::uint8_t {
  kHost,     ///< the thread that trains, where a device computes
  kCompute,  ///< the device; without one, the thread that trains
  kCopy,     ///< copies between host and device
  kGather,   ///< all-gathers
  kReduce,   ///< reduce-scatters, all-reduces
};
inline constexpr std::size_t kLanes = 5;
[[nodiscard]] const char* name_of(Lane lane);
[[nodiscard]] constexpr std::size_t index_of(Lane lane) {
  return static_cast<std::size_t>(lane);
}

/// The times that operations take.
class Rates {
 public:
  virtual ~Rates() = default;
  [[nodiscard]] virtual double seconds(const Work& work) const = 0;
  [[nodiscard]] virtual double seconds(const Message& message, const Group& group) const = 0;
  /// Seconds that the host needs to issue an operation to the device.
  [[nodiscard]] virtual double launch_s() const = 0;
  /// A device computes beside the thread that trains. Without one, that thread stands still for its messages.
  [[nodiscard]] virtual bool has_device() const = 0;
  /// Share of the device that a collective between devices keeps busy.
  [[nodiscard]] virtual double taken_by_messages() const { return 0; }
};

/// One operation on its lane.
struct Span {
  Lane lane;
  double begin_s;
  double end_s;
  std::uint16_t name;   ///< index into Trace::names
  std::uint16_t place;  ///< index into Trace::places; of a message 0
};

/// Operations of one name.
struct NameTotal {
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
  std::int64_t count = 0;
  Cost cost = Cost::kMemory;
};

/// The steps of the rank, drawn on lanes.
struct Timeline {
  double step_s = 0;
  std::array<double, kLanes> busy_s{};
  std::array<double, kLanes> wait_s{};       ///< compute stands still for the lane; the host issues something
  double flops = 0;                          ///< done, recomputation included
  std::map<std::string, NameTotal> by_name;  ///< on the device that computes
  std::vector<Span> spans;                   ///< of the micro-batches that were rehearsed
  std::int64_t left_out = 0;                 ///< passes that are not in `spans`: they are like the second
  std::size_t behind_left_out = 0;           ///< index of the first span after them
};

/// Plays the trace with `passes` micro-batches: those between the first and the last are like the second one
/// of the trace.
[[nodiscard]] Timeline play(const Trace& trace, const Rates& rates, std::int64_t passes);

}  // namespace echelon::forecast
