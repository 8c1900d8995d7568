// longjmp() goes from stack to stack here, which its checked form takes for a fault.
#undef _FORTIFY_SOURCE
#include "gpu/fibers/block.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "base/str.h"
#include "gpu/fibers/findings.h"
#include "gpu/fibers/symbols.h"

namespace echelon::fibers {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr std::size_t kMostThreads = 1024;
constexpr std::size_t kWarp = 32;
constexpr unsigned kMostBlocksYZ = 65535;

struct Fiber {
  enum class State { kReady, kAtBarrier, kInExchange, kDone };
  State state = State::kReady;
  bool has_begun = false;  ///< it stands at a wait or, done, where it takes up the next thread
  jmp_buf at;
  Site site;
  unsigned long long bits = 0;      ///< handed in
  unsigned long long received = 0;  ///< of the other lane
  int lanes = 0;
};

/// One launch after the other.
class Device {
 public:
  static Device& only() {
    static Device device;
    return device;
  }

  cudaError_t launch(const void* kernel, const gpu::Grid& asked, void (*body_of_thread)(void*), void* call);

  // Called by fibers.
  void wait(Site site);
  unsigned long long exchange(Site site, unsigned mask, unsigned long long bits, int lanes);
  [[nodiscard]] void* shared() const { return shared_; }

  Running running;
  bool is_running = false;
  gpu::Grid grid;
  uint3 block{};
  uint3 thread{};
  std::mt19937 chance{1};
  Site without;
  unsigned ends = 0;  ///< only so many of the first and the last blocks run; 0: all
  std::set<Site> barriers;
  std::set<std::string> launched;
  std::map<const void*, std::size_t> allowed;  ///< dynamic shared memory of a kernel, where it was asked for
  cudaError_t error = cudaSuccess;

 private:
  Device();
  void run_block();
  void begin(std::size_t fiber);
  void resume(std::size_t fiber);
  void yield(Fiber::State state, Site site);
  /// Lets go who has waited for all that are there now. False: nobody.
  bool release_block();
  bool release_warp(std::size_t first);
  void give_up();
  static void body();

  char* stacks_;
  std::vector<Fiber> fibers_;
  std::size_t threads_ = 0;
  std::size_t own_ = 0;  ///< fiber that runs
  jmp_buf scheduler_{};
  const void* kernel_ = nullptr;
  void (*thread_)(void*) = nullptr;
  void* call_ = nullptr;
  void* shared_ = nullptr;
};

Device::Device() : fibers_(kMostThreads) {
  void* memory = ::mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  stacks_ = static_cast<char*>(memory);
  running.stacks = stacks_;
  running.stack_bytes = kStackBytes;
}

bool is_possible(const gpu::Grid& grid, std::size_t most_shared) {
  const std::size_t threads = std::size_t{grid.threads.x} * grid.threads.y * grid.threads.z;
  const bool blocks = grid.blocks.x > 0 && grid.blocks.x <= 0x7FFFFFFF && grid.blocks.y > 0 &&
                      grid.blocks.y <= kMostBlocksYZ && grid.blocks.z > 0 && grid.blocks.z <= kMostBlocksYZ;
  return blocks && threads > 0 && threads <= kMostThreads && grid.shared <= most_shared;
}

cudaError_t Device::launch(const void* kernel, const gpu::Grid& asked, void (*body_of_thread)(void*),
                           void* call) {
  const std::size_t dynamic = std::max(allowed[kernel], kMostShared);
  if (!is_possible(asked, dynamic)) return cudaErrorInvalidConfiguration;
  const Symbol* symbol = symbol_at(kernel);
  running.kernel = symbol == nullptr ? "a kernel" : symbol->name;
  launched.insert(running.kernel);
  grid = asked;
  kernel_ = kernel;
  thread_ = body_of_thread;
  call_ = call;
  threads_ = std::size_t{grid.threads.x} * grid.threads.y * grid.threads.z;
  ++running.now.launch;
  running.now.block = 0;
  shared_ = Memory::only().shared(grid.shared, dynamic > kMostShared ? kMostSharedAsked : kMostShared);
  for (block.z = 0; block.z < grid.blocks.z; ++block.z) {
    for (block.y = 0; block.y < grid.blocks.y; ++block.y) {
      for (block.x = 0; block.x < grid.blocks.x; ++block.x, ++running.now.block) {
        if (ends > 0 && block.x == ends) block.x = std::max(ends, grid.blocks.x - ends);
        run_block();
      }
    }
  }
  return cudaSuccess;
}

void Device::body() {
  Device& device = only();
  for (;;) {
    device.thread_(device.call_);
    device.yield(Fiber::State::kDone, {});
  }
}

/// The first time on its stack. From then on jumps do, which spare the system calls of swapcontext().
void Device::begin(std::size_t fiber) {
  fibers_[fiber].has_begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks_ + fiber * kStackBytes;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, &Device::body, 0);
  setcontext(&context);
}

void Device::resume(std::size_t fiber) {
  own_ = fiber;
  const auto at = static_cast<unsigned>(fiber);
  thread = {at % grid.threads.x, at / grid.threads.x % grid.threads.y, at / grid.threads.x / grid.threads.y};
  running.now.thread = at;
  is_running = true;
  if (_setjmp(scheduler_) == 0) {
    if (!fibers_[fiber].has_begun) begin(fiber);
    _longjmp(fibers_[fiber].at, 1);
  }
  is_running = false;
}

void Device::yield(Fiber::State state, Site site) {
  fibers_[own_].state = state;
  fibers_[own_].site = site;
  if (_setjmp(fibers_[own_].at) == 0) _longjmp(scheduler_, 1);
}

void Device::run_block() {
  running.now.epoch = 0;
  std::vector<std::size_t> order(threads_);
  for (std::size_t n = 0; n < threads_; ++n) {
    order[n] = n;
    fibers_[n].state = Fiber::State::kReady;
  }
  std::shuffle(order.begin(), order.end(), chance);
  const auto done = [](const Fiber& fiber) { return fiber.state == Fiber::State::kDone; };
  const auto end = fibers_.begin() + static_cast<std::ptrdiff_t>(threads_);
  for (;;) {
    for (const std::size_t n : order) {
      if (fibers_[n].state == Fiber::State::kReady) resume(n);
    }
    if (std::all_of(fibers_.begin(), end, done)) return;
    bool freed = release_block();
    for (std::size_t first = 0; first < threads_; first += kWarp) freed = release_warp(first) || freed;
    if (!freed) return give_up();
  }
}

bool Device::release_block() {
  for (std::size_t n = 0; n < threads_; ++n) {
    if (fibers_[n].state != Fiber::State::kAtBarrier || fibers_[n].site != fibers_[0].site) return false;
  }
  for (std::size_t n = 0; n < threads_; ++n) fibers_[n].state = Fiber::State::kReady;
  ++running.now.epoch;
  return true;
}

bool Device::release_warp(std::size_t first) {
  const std::size_t end = std::min(first + kWarp, threads_);
  for (std::size_t n = first; n < end; ++n) {
    const Fiber& fiber = fibers_[n];
    const bool alike = fiber.site == fibers_[first].site && fiber.lanes == fibers_[first].lanes;
    if (fiber.state != Fiber::State::kInExchange || !alike) return false;
  }
  for (std::size_t n = first; n < end; ++n) {
    const std::size_t other = first + ((n - first) ^ static_cast<std::size_t>(fibers_[first].lanes));
    // A lane that is not there has no value to give.
    if (other >= end) {
      find(Kind::kMisused, kernel_,
           str(running.kernel, ": exchange with lane ", other - first, ", which is not there"));
    }
    fibers_[n].received = fibers_[std::min(other, end - 1)].bits;
    fibers_[n].state = Fiber::State::kReady;
  }
  return true;
}

/// Tells that no thread can go on, and leaves them where they are.
void Device::give_up() {
  std::set<std::string> places;
  for (std::size_t n = 0; n < threads_; ++n) {
    const Fiber& fiber = fibers_[n];
    places.insert(fiber.state == Fiber::State::kDone ? "the end"
                                                     : str(fiber.site.file, ":", fiber.site.line));
    fibers_[n].has_begun = fiber.state == Fiber::State::kDone;
  }
  std::string text;
  for (const std::string& place : places) text += (text.empty() ? "" : ", ") + place;
  find(Kind::kStuck, kernel_,
       str(running.kernel, ": threads of a block wait for each other at different places: ", text));
}

void Device::wait(Site site) {
  barriers.insert(site);
  if (site == without) return;
  yield(Fiber::State::kAtBarrier, site);
}

unsigned long long Device::exchange(Site site, unsigned mask, unsigned long long bits, int lanes) {
  if (mask != ~0U)
    find(Kind::kMisused, kernel_, str(running.kernel, ": an exchange of some lanes is not known here"));
  fibers_[own_].bits = bits;
  fibers_[own_].lanes = lanes;
  yield(Fiber::State::kInExchange, site);
  return fibers_[own_].received;
}

}  // namespace

const Running* running() {
  const Device& device = Device::only();
  return device.is_running ? &device.running : nullptr;
}
void set_schedule(unsigned seed, const Site& without) {
  Device::only().chance.seed(seed);
  Device::only().without = without;
}
void run_ends(unsigned blocks) {
  Device::only().ends = blocks;
}
const std::set<Site>& barriers() {
  return Device::only().barriers;
}
const std::set<std::string>& launched() {
  return Device::only().launched;
}
void allow_shared(const void* kernel, std::size_t bytes) {
  Device::only().allowed[kernel] = bytes;
}
cudaError_t take_launch_error() {
  return std::exchange(Device::only().error, cudaSuccess);
}

uint3 thread_index() {
  return Device::only().thread;
}
uint3 block_index() {
  return Device::only().block;
}
dim3 block_size() {
  return Device::only().grid.threads;
}
dim3 grid_size() {
  return Device::only().grid.blocks;
}
void wait_for_block(Site site) {
  Device::only().wait(site);
}
unsigned long long exchange(Site site, unsigned mask, unsigned long long bits, int lanes) {
  return Device::only().exchange(site, mask, bits, lanes);
}

}  // namespace echelon::fibers

namespace echelon::gpu {

void run_on_host(const void* kernel, const Grid& grid, void (*thread)(void* call), void* call) {
  const cudaError_t error = fibers::Device::only().launch(kernel, grid, thread, call);
  if (error != cudaSuccess) fibers::Device::only().error = error;
}

void* dynamic_shared_bytes() {
  return fibers::Device::only().shared();
}

}  // namespace echelon::gpu
