#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/net/guarded_listener.h"
#include "base/not_copied.h"

/// Shards of memory checkpoints on their way between nodes: over TCP connections of their own, one for each
/// file, beside the collectives of training. Whoever wants a file asks the rank that has it.
namespace echelon::checkpoint {

/// What is asked for.
enum class WantedFile : std::uint32_t {
  kShard = 1,  ///< the whole file
  kIndex,      ///< the index at its beginning
  kInfo,       ///< INFO of the step folder
};
struct WantedShard {
  WantedFile file = WantedFile::kShard;
  std::int64_t step = 0;
  std::string save_id;
  int rank = 0;  ///< that wrote it
  int ranks = 1;
  double patience_s = 0;  ///< for a file that is still being written
};

/// Hands out the files of one run's memory on this node, to those who know its secret. Its threads run at low
/// priority. Files are found by numbers: no path is ever taken from a request.
class ShardServer : NotCopied {
 public:
  /// Listens on a port that the system chooses. Throws Error(kEnvironment).
  ShardServer(std::filesystem::path run_folder, const Secret& secret, GuardedListener::Places places = {});
  /// Ends what is being sent.
  ~ShardServer();

  [[nodiscard]] ServiceCard card() const { return own_card(listener_.port()); }
  /// Tells the cards of all ranks, when they are known.
  void expect(const std::vector<ServiceCard>& cards) { listener_.expect(cards); }

 private:
  struct Shared;
  void loop();
  void serve_in_thread(fs::Fd client);

  GuardedListener listener_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

/// How a file is fetched.
struct FetchLimits {
  double silence_s = 30;                         ///< of the other side, after which it counts as lost
  const std::atomic<bool>* cancelled = nullptr;  ///< becomes true: the fetch ends
};
/// Fetches a file from the service of another rank, or of this one; `take` gets its bytes in order. Throws
/// Error(kCheckpoint) for what the other side answers, Error::of_system() when it does not, or could not read
/// the file, and what `take` throws.
void fetch(const ServiceCard& from, const Secret& secret, const WantedShard& wanted,
           const FetchLimits& limits, const std::function<void(std::span<const std::byte>)>& take);

}  // namespace echelon::checkpoint
