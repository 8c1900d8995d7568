#pragma once
#include <map>
#include <string>
#include <vector>

#include "forecast/timeline.h"

namespace echelon::forecast {

/// What `echelon doctor job --calibrate` measures on the CPU ranks of a job, all of them at once.
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
  std::map<std::string, std::vector<Point>> works;     ///< by key_of()
  std::map<std::string, std::vector<Point>> messages;  ///< by collective; `bytes` as Message::sent_bytes
  /// Host time around an operation, not in it; of those that are not divided among threads.
  double between_s = 0;
};

/// "mm fp32", and with a star for one that runs in one of several threads.
[[nodiscard]] std::string key_of(const std::string& name, const Work& work);

[[nodiscard]] std::string to_json(const CpuProfile& profile);
/// Throws Error(kUsage): an unreadable file, a missing key, a number that is not finite or not above 0.
[[nodiscard]] CpuProfile read_cpu_profile(const std::string& file);
/// Is this a file with such a profile (and not with a device's)?
[[nodiscard]] bool is_cpu_profile(const std::string& file);

/// Times on such ranks: those of the measured operations of the same name that are nearest in size and in
/// FLOPs per byte.
class CpuRates final : public Rates {
 public:
  /// `trace`: names of works; outlives this object.
  CpuRates(CpuProfile profile, const Trace& trace) : profile_(std::move(profile)), trace_(trace) {}

  [[nodiscard]] double seconds(const Work& work) const override;
  [[nodiscard]] double seconds(const Message& message, const Group& group) const override;
  [[nodiscard]] double launch_s() const override { return 0; }
  [[nodiscard]] bool has_device() const override { return false; }
  [[nodiscard]] bool one_lane_for_messages() const override { return true; }
  [[nodiscard]] bool messages_take_compute() const override {
    return profile_.threads * profile_.ranks_per_node >= profile_.cores;
  }

 private:
  [[nodiscard]] const std::vector<CpuProfile::Point>* points_for(const Work& work) const;

  CpuProfile profile_;
  const Trace& trace_;
};

}  // namespace echelon::forecast
