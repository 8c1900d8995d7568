#pragma once
#include <cuda_runtime.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gpu/stand_in/operation.h"

/// A stand-in for the CUDA runtime (cuda.cpp) and NCCL (nccl.cpp) at the link seam. Ranks are threads; each
/// has a device, whose streams are queues that one thread empties in an order of chance. Device memory is
/// ordinary memory, operations compute, and each says which bytes it reads and writes: what no event, wait or
/// stream orders is a fault.
namespace echelon::stand_in {

struct MachineOptions {
  std::uint64_t seed = 1;
  int ranks = 1;
  int ranks_per_node = 0;         ///< 0: all on one
  const Site* without = nullptr;  ///< this one is left out
  int places = 2;                 ///< collectives that run on a device at once: those of two lanes
  int fated_rank = -1;            ///< at its call number fated_call it meets `fate`
  int fated_call = 0;
  Fate fate = Fate::kGoesOn;
};

/// What a machine has noticed.
struct Report {
  std::vector<std::string> faults;
  std::set<Site> sites;    ///< every place that called for an order
  std::vector<int> calls;  ///< by rank
};

class Machine {
 public:
  explicit Machine(const MachineOptions& options);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  /// This thread is `rank` of the machine.
  void enter(int rank);
  static void leave();
  /// The machine of the calling rank; null in other threads.
  [[nodiscard]] static Machine* current();
  /// That of the stream; of the calling rank for its default stream.
  [[nodiscard]] static Machine& of(cudaStream_t stream);

  // For tests.
  [[nodiscard]] void* device_memory(std::size_t bytes);
  /// Queues a computation on the rank's stream (null: its default one).
  void launch(cudaStream_t stream, const std::string& name, std::vector<Range> reads,
              std::vector<Range> writes, std::function<void()> run);
  [[nodiscard]] Report report() const;
  /// Bytes that one rank has given to ncclSend so far.
  [[nodiscard]] std::uint64_t sent(int rank) const;
  /// The calling rank breaks: it hangs until release(), and NCCL tells the others.
  void break_here();
  /// The calling rank's device has failed: every later call of the rank does, too.
  void lose_device();
  /// Every blocked call returns with an error from now on.
  void release();
  /// What each stream waits for: for messages about a standstill.
  [[nodiscard]] std::string standstill() const;

  // For the two libraries. All but `begin_call` with the lock held.
  /// False: the call is to fail. Waits a moment of chance first.
  [[nodiscard]] bool begin_call();
  [[nodiscard]] std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
  [[nodiscard]] bool left_out(Order order);
  /// Called, with the lock held, when a rank breaks.
  void on_break(std::function<void(int rank)> tell) { tell_ = std::move(tell); }
  /// An operation of the rank that has not ended touches these bytes.
  [[nodiscard]] bool in_use(int rank, Range range) const;
  void fault(const std::string& text);
  /// As cudaSetDevice: a thread begins with device 0. Rank r has device r.
  static void set_device(int device);
  /// A fault where the calling thread's device is not that of `rank`: CUDA would refuse the call, or make a
  /// context on another rank's device.
  void needs_device_of(int rank, const char* call);
  [[nodiscard]] bool on_one_node(int rank, int other) const;
  Host& host();
  Stream& stream(cudaStream_t handle);
  Stream& new_stream();
  Event& new_event();
  /// What the calling thread has done so far, for what it issues now.
  [[nodiscard]] Clock issue();
  /// Nothing is queued on the rank's device.
  [[nodiscard]] bool idle(int rank) const;
  /// The calling rank has given these to ncclSend.
  void count_sent(std::size_t bytes) { sent_[static_cast<std::size_t>(host().rank)] += bytes; }
  void push(Stream& stream, Operation operation);
  /// With `issued` given: by a thread of the library for another one.
  void push_issued(Stream& stream, Operation operation);
  /// Done in a moment of chance, once it is ready.
  void add_job(std::function<bool()> ready, std::function<void()> run);
  /// Waits without the lock until `done()` or release(). False: released.
  bool wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  /// The calling thread has seen the moment.
  void saw(const Record& record) { join(host().clock, record.clock); }
  void changed() { changed_.notify_all(); }
  [[nodiscard]] double chance() { return std::uniform_real_distribution<>(0, 1)(random_); }
  [[nodiscard]] void* allocate(std::size_t bytes);
  void pin(void* memory, std::size_t bytes);
  void unpin(void* memory);
  [[nodiscard]] bool pinned(const void* memory) const;
  void free_range(void* memory, Stream& stream);
  [[nodiscard]] std::size_t bytes_of(void* memory) const;
  /// Within what was taken of the device or pinned; else a fault.
  [[nodiscard]] bool inside(const std::vector<Range>& ranges, const std::string& what);
  /// What a library keeps under a name as long as the machine; made on the first call.
  template <class T>
  [[nodiscard]] T& kept(const std::string& name) {
    std::shared_ptr<void>& place = kept_[name];
    if (!place) place = std::make_shared<T>();
    return *static_cast<T*>(place.get());
  }

 private:
  struct Job {
    std::function<bool()> ready;
    std::function<void()> run;
  };
  void work();
  bool step();
  void run_head(Stream& stream);
  /// False: as many collectives run on its device as have a place there.
  bool takes_place(const Stream& stream, Operation& head);

  const MachineOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  double idle_us_;  ///< longest pause before an operation
  Books books_;
  std::deque<Stream> streams_;
  std::vector<Stream*> defaults_;
  std::deque<Event> events_;
  std::vector<Job> jobs_;
  std::map<void*, std::pair<std::unique_ptr<std::byte[]>, std::size_t>> memory_;
  std::map<void*, std::size_t> pinned_;
  std::map<std::string, std::shared_ptr<void>> kept_;
  Report report_;
  std::vector<std::uint64_t> sent_;
  std::set<int> lost_;            ///< ranks without a device
  std::vector<int> running_;      ///< collectives on each rank's device
  std::uint64_t operations_ = 0;  ///< that have run: the machine's time
  std::function<void(int)> tell_;
  bool released_ = false;
  bool ending_ = false;
  std::thread worker_;
};

}  // namespace echelon::stand_in
