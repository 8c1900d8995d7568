#pragma once
#include <map>
#include <string>
#include <vector>

#include "forecast/timeline.h"

namespace echelon::forecast {

/// The measurements of `echelon doctor job --calibrate` on the CPU ranks of a job, all of them at once.
struct CpuProfile {
  std::string name;
  std::string title;
  int ranks_per_node = 1;
  int threads = 1;  ///< compute threads of a rank
  int cores = 1;    ///< of the node
  /// One measured operation.
  struct Point {
    double flops = 0;
    double bytes = 0;
    double seconds = 0;
  };
  std::map<std::string, std::vector<Point>> works;  ///< by key_of()
  /// Time of a thread before a work: reaching the operation, autograd, memory. By key_of(), and by that and
  /// the name of the work before it.
  std::map<std::string, std::vector<Point>> before;
  std::map<std::string, std::vector<Point>> messages;  ///< by key_of(); `bytes` as Message::sent_bytes
};

/// "mm fp32", and with a star for one that runs in one of several threads.
[[nodiscard]] std::string key_of(const std::string& name, const Work& work);
/// "mm fp32 after add_"
[[nodiscard]] std::string key_after(const std::string& key, const std::string& previous);
/// "reduce_scatter bf16"; `alone`: of one rank, whose points count the bytes of its own data.
[[nodiscard]] std::string key_of(OperationKind kind, DType type, bool alone);

[[nodiscard]] std::string to_json(const CpuProfile& profile);
/// Throws Error(kUsage): an unreadable file, a missing key, a number that is not finite or not above 0.
[[nodiscard]] CpuProfile read_cpu_profile(const std::string& file);
/// Returns whether the file holds such a profile (and not a device's).
[[nodiscard]] bool is_cpu_profile(const std::string& file);

/// Times on such ranks, taken from the measured operations of the same name that are nearest in size and in
/// FLOPs per byte.
class CpuRates final : public Rates {
 public:
  /// `trace`: names of works; outlives this object.
  CpuRates(CpuProfile profile, const Trace& trace) : profile_(std::move(profile)), trace_(trace) {}

  [[nodiscard]] double seconds(const Work& work) const override;
  [[nodiscard]] double seconds(const Message& message, const Group& group) const override;
  [[nodiscard]] double launch_s() const override { return 0; }
  /// False: the measured time of a message is how long it held up the thread that trains.
  [[nodiscard]] bool has_device() const override { return false; }

 private:
  [[nodiscard]] const std::vector<CpuProfile::Point>* points_for(const Work& work) const;
  [[nodiscard]] double before_s(const Work& work, const CpuProfile::Point& one, std::uint16_t previous) const;

  CpuProfile profile_;
  const Trace& trace_;
};

}  // namespace echelon::forecast
