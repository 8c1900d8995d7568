#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "app/engine/answer.h"
#include "app/engine/engine.h"
#include "app/engine/plan/stage.h"
#include "base/not_copied.h"
#include "book/books.h"
#include "book/communicator.h"
#include "book/device.h"
#include "book/device_kernels.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/write/staging.h"
#include "optim/optimizer.h"
#include "shard/memory/host_memory.h"
#include "train/batch_tensors.h"
#include "train/measure/flops.h"
#include "train/measure/memory_report.h"
#include "train/save/save_interval.h"
#include "train/state_tensors.h"

namespace echelon::app {
namespace {

/// The recipe with at most three micro-batches a step, the first, one in between, and the last: what memory
/// and the trace need.
Recipe shortened(Recipe recipe, int ranks) {
  constexpr std::int64_t kPasses = 3;
  const std::int64_t samples = recipe.train.micro_batch_size * ranks;
  recipe.train.global_batch_size = std::min(recipe.train.global_batch_size, kPasses * samples);
  recipe.data.workers = 0;
  return recipe;
}

at::Device device_of(bool gpu) {
  if (!gpu) return at::kCPU;
  const at::Device device = book::recording_device();
  ops::install_device_kernels(book::recording_device_kernels(), device.type());
  return device;
}

/// Passes all on to the allocator of runs, and counts what lies in parallel regions.
class CountingAllocator final : public at::Allocator {
 public:
  /// Never destroyed: tensors may outlive a rehearsal.
  static CountingAllocator& instance() {
    static CountingAllocator& only = *new CountingAllocator;
    return only;
  }

  void install(int threads) {
    threads_ = threads;
    below_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(this, 0);
    reset_peak();
  }
  void remove() const { c10::SetCPUAllocator(below_, 0); }

  at::DataPtr allocate(std::size_t bytes) override {
    void* const block = below_->allocate(bytes).release_context();
    if (block != nullptr && c10::ParallelGuard::is_enabled()) {
      scratch_.emplace(block, bytes);
      scratch_bytes_ += static_cast<std::int64_t>(bytes);
    }
    peak_ = std::max(peak_, counted());
    return {block, block, release, at::Device(at::kCPU)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// Most bytes of CPU tensors since the beginning or the last reset_peak().
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = counted(); }

 private:
  static void release(void* block) {
    CountingAllocator& self = instance();
    if (const auto found = self.scratch_.find(block); found != self.scratch_.end()) {
      self.scratch_bytes_ -= static_cast<std::int64_t>(found->second);
      self.scratch_.erase(found);
    }
    self.below_->raw_deleter()(block);
  }

  /// Bytes of living tensors, as if all threads computed.
  [[nodiscard]] std::int64_t counted() const {
    return HostMemory::live_bytes() + (threads_ - 1) * scratch_bytes_;
  }

  at::Allocator* below_ = nullptr;
  int threads_ = 1;
  std::unordered_map<void*, std::size_t> scratch_;  ///< living blocks of parallel regions, with their bytes
  std::int64_t scratch_bytes_ = 0;
  std::int64_t peak_ = 0;
};

/// While it lives, the recording thread stands for `threads` threads: a tensor that it allocates within a
/// parallel region counts once for each. Needs HostMemory. One object at a time.
class OneForAll : NotCopied {
 public:
  explicit OneForAll(int threads) { CountingAllocator::instance().install(threads); }
  ~OneForAll() { CountingAllocator::instance().remove(); }
};

/// Most bytes of tensors.
struct Peaks {
  std::int64_t device = 0;
  std::int64_t host = 0;
};
Peaks peaks_so_far() {
  return {book::device_memory().peak_bytes(), CountingAllocator::instance().peak()};
}

/// Two steps: buffers are allocated in the first, and the second shows what all later ones do, its peak too.
/// Returns the peaks of the first.
Peaks two_steps(Stage& stage, bool gpu, forecast::Trace& second) {
  CountingAllocator::instance().reset_peak();
  stage.step();
  const Peaks first = peaks_so_far();
  CountingAllocator::instance().reset_peak();
  book::device_memory().reset_peak();
  const auto peak = [gpu] {
    return gpu ? book::device_memory().peak_bytes() : CountingAllocator::instance().peak();
  };
  book::books().begin(stage.activity, peak);
  stage.step();
  second = book::books().end();
  return first;
}

void validate(const Recipe& recipe, TrainState& state) {
  if (recipe.train.validate_every_steps == 0 && recipe.train.validate_every_epochs == 0) return;
  const SampleBatch samples = state.data.read(0, recipe.train.micro_batch_size);
  (void)state.model.evaluate(to_tensors(samples, state.model.device()));
}

/// Gives host memory as it is before a run, and leaves it so.
class FreshHostMemory : NotCopied {
 public:
  FreshHostMemory() {
    HostMemory::install();
    HostMemory::trim();
    before_ = HostMemory::reserved_bytes();
  }
  ~FreshHostMemory() { HostMemory::trim(); }

  /// Taken for tensors since the beginning, gaps between them included.
  [[nodiscard]] std::int64_t reserved() const { return HostMemory::reserved_bytes() - before_; }

 private:
  std::int64_t before_ = 0;
};

/// `reserved`: of host memory; threads' temporaries are counted once.
void count_memory(const Recipe& recipe, const TrainState& state, const Peaks& peaks, std::int64_t reserved,
                  forecast::MemoryUse& use) {
  const MemoryReport report = memory_report(state);
  const bool on_host = state.model.device().is_cpu();
  use = {.weights = report.weights,
         .gradients = report.gradients,
         .optimizer = report.optimizer,
         .averaged = report.averaged,
         .gathered = report.gathered.peak,
         .whole_gradients = report.outgoing.peak,
         .staging = report.staging.peak,
         .pool = report.pool,
         .device_peak = on_host ? peaks.host : peaks.device,
         .device_reserved = on_host ? std::max(peaks.host, reserved) : book::device_memory().reserved_bytes(),
         .host_peak = peaks.host,
         .offloaded = !on_host && recipe.shard.offload == Offload::kCpu};
}

/// Bytes of the process before the first rehearsal, without tensors.
std::int64_t resident_at_first() {
  static const std::int64_t bytes = resident_bytes();
  return bytes;
}

/// Bytes of host memory that a rank's saves take.
std::int64_t of_a_save(const Recipe& recipe, std::int64_t shard_bytes) {
  // A save fills all windows of a pipe but one; the last would make it wait for the disk.
  constexpr std::int64_t kPipe = (checkpoint::Staging::kPipeWindows - 1) * checkpoint::Staging::kWindowBytes;
  // The number of steps of epochs is known only with the data.
  const std::int64_t steps =
      recipe.train.epochs > 0 ? std::numeric_limits<std::int64_t>::max() : recipe.train.steps;
  const bool copies = saves_beside_training(recipe.checkpoint, 0, steps);
  return (copies ? shard_bytes : 0) + std::min(kPipe, shard_bytes);
}

/// Bytes of a rank's process beside its tensors: the memory of libraries that compute and communicate, and of
/// a save. Measured on CPUs over 29 runs, to within 10 MiB.
std::int64_t beside_tensors(const Recipe& recipe, const forecast::JobShape& job, int threads,
                            std::int64_t shard_bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  constexpr std::int64_t kComputing = 21 * kMiB;
  constexpr std::int64_t kSinglePrecision = 6 * kMiB;  // a thread's buffers of products in fp32
  constexpr std::int64_t kImages = 18 * kMiB;          // compiled convolutions, codecs
  // oneDNN compiles products of each new number of tokens, and keeps 1,024 of them.
  constexpr std::int64_t kCompiledInPass = 3 * kMiB / 4;
  constexpr std::int64_t kMostCompiled = 100 * kMiB;
  constexpr std::int64_t kCommunicating = 6 * kMiB;
  const bool single = resolve(recipe.precision).param == at::kFloat;
  std::int64_t by_kind = takes_images(recipe.model.kind) ? kImages : 0;
  if (takes_pairs(recipe.model.kind) && !single) {
    const std::int64_t passes =
        recipe.train.steps * recipe.train.global_batch_size / (recipe.train.micro_batch_size * job.ranks);
    by_kind = recipe.train.epochs > 0 ? kMostCompiled : std::min(kMostCompiled, passes * kCompiledInPass);
  }
  return resident_at_first() + kComputing + (single ? threads * kSinglePrecision : 0) + by_kind +
         (job.ranks > 1 ? kCommunicating : 0) + of_a_save(recipe, shard_bytes);
}

void describe(const Recipe& recipe, const TrainState& state, int ranks, forecast::Rehearsed& result) {
  const ShardedModel& model = state.model;
  const SampleSize size = state.data.sample_size();
  const std::int64_t samples = recipe.train.global_batch_size;
  result.samples = samples;
  result.model_flops =
      static_cast<double>(samples) / ranks * flops_per_sample(model, {size.tokens, size.target_tokens});
  result.tokens_per_sample = static_cast<double>(size.tokens + size.target_tokens);
  result.passes = samples / (recipe.train.micro_batch_size * ranks);
  result.model = word_of(recipe.model.kind);
  result.parameters = model.model().numel();
  result.units = static_cast<std::int64_t>(model.units().size());
  for (const auto& unit : model.units())
    result.largest_unit = std::max(result.largest_unit, unit->gathered_bytes());
  result.groups = model.groups().describe();
  result.unit_tree = describe_units(model.plan(), model.groups().shard().size(), state_bytes(recipe.optim));
  result.rank_checkpoint_bytes = static_cast<std::int64_t>(bytes_to_save(state));
  for (const checkpoint::TensorInfo& tensor : global_tensors(state)) {
    result.checkpoint_bytes +=
        static_cast<std::int64_t>(checkpoint::element_count(tensor) * size_of(tensor.dtype));
  }
}

/// Carries out training steps of rank 0 on the bookkeeping device: the engine's own code, with tensors that
/// have no contents. Throws Error(kUsage) for a recipe that does not fit the job. Files of data are not
/// opened: every sample is as long as the recipe allows.
forecast::Rehearsed rehearse(const Recipe& recipe, const forecast::JobShape& job, bool gpu, int threads) {
  const Recipe shorter = shortened(recipe, job.ranks);
  const at::Device device = device_of(gpu);
  (void)resident_at_first();
  const FreshHostMemory memory;
  const OneForAll for_all(threads);
  book::device_memory() = {};
  book::books().restart();
  const book::Recording recording;
  const auto communicator = [&](bool on_host) {
    return book::make_recording_communicator(0, job.ranks, on_host, job.ranks_per_node);
  };
  const auto comm = communicator(!gpu);
  const auto on_host = communicator(true);
  Stage stage(shorter, *comm, gpu ? *on_host : *comm, device, job.ranks_per_node);
  forecast::Rehearsed result;
  const Peaks first = two_steps(stage, gpu, result.step);
  validate(shorter, stage.state);
  const TrainState& state = stage.state;
  const Peaks later = peaks_so_far();
  count_memory(recipe, state, {std::max(first.device, later.device), std::max(first.host, later.host)},
               memory.reserved(), result.memory);
  describe(recipe, state, job.ranks, result);
  result.memory.process = beside_tensors(recipe, job, threads, result.rank_checkpoint_bytes);
  if (gpu) result.memory.host_peak += of_a_save(recipe, result.rank_checkpoint_bytes);
  return result;
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_rehearse(const echelon::Recipe& recipe, const echelon::forecast::JobShape& job, bool gpu,
                            int threads, echelon::forecast::Rehearsed& result, std::string& fault) {
  return echelon::app::answer(fault, [&] { result = echelon::app::rehearse(recipe, job, gpu, threads); });
}
