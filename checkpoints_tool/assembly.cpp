#include "assembly.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>

#include "base/crc32c.h"
#include "base/str.h"
#include "checkpoint/bulk_memory.h"
#include "direct_file.h"

namespace echelon::tool {
namespace {

using checkpoint::Reader;

// Program, libraries and the checkpoint's index.
constexpr std::uint64_t kBaseBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kWorkerBytes = kWindowBytes + kWindowFillerBytes;
constexpr int kDefaultWorkers = 4;
constexpr auto kLook = std::chrono::milliseconds(100);

class Assembly {
 public:
  Assembly(const Reader& reader, const OutputPlan& plan, const fs::Path& output, Journal& journal)
      : reader_(reader), plan_(plan), journal_(journal), windows_(windows_of(plan)) {
    for (const OutputFile& file : plan.files) {
      files_.emplace_back(file.name.empty() ? output : output / file.name, file.bytes);
    }
    records_.resize(windows_.size());
  }

  void run(int workers, Progress& progress) {
    std::vector<std::thread> threads;
    try {
      for (int i = 0; i < workers; ++i) threads.emplace_back([this] { work(); });
      watch(workers, progress);
    } catch (...) {
      stop_ = true;
      for (std::thread& thread : threads) thread.join();
      throw;
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  /// The parts were right one by one; this proves that they were put together in the right order.
  void prove_checksums() const;

  void finish() {
    for (DirectFile& file : files_) file.finish();
  }

 private:
  /// Until all workers have ended.
  void watch(int workers, Progress& progress) {
    const std::uint64_t total = planned_bytes(plan_);
    std::unique_lock lock(ending_);
    while (!ended_signal_.wait_for(lock, kLook, [&] { return ended_ == workers; })) {
      progress.show(done_, total);
    }
  }

  void work() {
    try {
      const checkpoint::BulkMemory buffer(kWindowBytes);
      WindowFiller filler(reader_);
      for (std::size_t i = next_++; i < windows_.size() && !stop_; i = next_++) {
        make(i, filler, buffer.bytes());
        done_ += windows_[i].end - windows_[i].begin;
      }
    } catch (...) {
      const std::lock_guard lock(ending_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(ending_);
    ++ended_;
    ended_signal_.notify_all();
  }

  void make(std::size_t number, WindowFiller& filler, std::span<std::byte> buffer) {
    const Window& window = windows_[number];
    const std::uint64_t size = window.end - window.begin;
    const std::uint64_t padded = (size + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    const OutputFile& file = plan_.files[window.file];
    DirectFile& into = files_[window.file];
    const auto earlier = journal_.earlier().find(number);
    if (earlier != journal_.earlier().end() &&
        earlier->second.parts.size() == parts_of(file, window).size()) {
      into.read(window.begin, buffer.first(padded));
      if (crc32c(buffer.first(size)) == earlier->second.crc) {
        records_[number] = earlier->second;
        return;
      }
    }
    WindowRecord record = filler.fill(file, window, buffer.first(size));
    record.window = number;
    std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(size),
              buffer.begin() + static_cast<std::ptrdiff_t>(padded), std::byte{0});
    into.write(window.begin, buffer.first(padded));
    journal_.append(record);
    records_[number] = std::move(record);
  }

  const Reader& reader_;
  const OutputPlan& plan_;
  Journal& journal_;
  std::vector<Window> windows_;
  std::deque<DirectFile> files_;
  std::vector<WindowRecord> records_;  ///< each written by the worker that made the window
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex ending_;  ///< guards what follows
  std::condition_variable ended_signal_;
  int ended_ = 0;
  std::exception_ptr failure_;
};

void Assembly::prove_checksums() const {
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const std::vector<Part> parts = parts_of(plan_.files[windows_[i].file], windows_[i]);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const OutputTensor& tensor = *parts[k].tensor;
      const std::uint64_t size = size_of(tensor.source.dtype);
      if (parts[k].begin == 0) crc = 0;
      crc = crc32c_combine(crc, records_[i].parts[k], (parts[k].end - parts[k].begin) * size);
      const bool whole = parts[k].end * size_of(tensor.dtype) == tensor.bytes;
      if (!whole || tensor.transposed || crc == reader_.checksum(tensor.source.name)) continue;
      throw Error(Code::kCheckpoint,
                  str("tensor '", tensor.source.name, "' does not add up to its checksum"));
    }
  }
}

}  // namespace

int workers_within(std::uint64_t memory_bytes, int jobs, const OutputPlan& plan) {
  std::uint64_t held = kBaseBytes;
  for (const OutputFile& file : plan.files) held += 2 * file.head.size();
  if (memory_bytes < held + kWorkerBytes) {
    throw Error(Code::kUsage, str("--mem ", human_bytes(memory_bytes), " is too little, this needs at least ",
                                  human_bytes(held + kWorkerBytes)));
  }
  if (jobs == 0) jobs = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kDefaultWorkers);
  return static_cast<int>(
      std::min<std::uint64_t>(static_cast<std::uint64_t>(jobs), (memory_bytes - held) / kWorkerBytes));
}

void assemble(const Reader& reader, const OutputPlan& plan, const fs::Path& output, Journal& journal,
              int workers, Progress& progress) {
  Assembly assembly(reader, plan, output, journal);
  assembly.run(workers, progress);
  assembly.prove_checksums();
  assembly.finish();
}

}  // namespace echelon::tool
