#include "checkpoints_tool/convert/assembly.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include "base/checksum/crc32c.h"
#include "base/str.h"
#include "checkpoint/folder/bulk_memory.h"
#include "checkpoints_tool/convert/direct_file.h"

namespace echelon::tool {
namespace {

// Reserved for program, libraries and the checkpoint's index.
constexpr std::uint64_t kBaseBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kWorkerBytes = kWindowBytes + kWindowFillerBytes;
constexpr std::uint64_t kMostTileBytes = std::uint64_t{256} << 20;
constexpr int kDefaultWorkers = 4;
constexpr auto kLook = std::chrono::milliseconds(100);

/// Calls `each`(offset in the window, length) for every range of `window` that belongs to a transposed
/// tensor.
template <class Each>
void for_each_transposed(const OutputFile& file, const Window& window, Each&& each) {
  for (const Part& part : parts_of(file, window)) {
    const std::uint64_t size = size_of(part.tensor->dtype);
    if (part.tensor->transposed)
      each(part.tensor->offset + part.begin * size - window.begin, (part.end - part.begin) * size);
  }
}

/// Calls `each` for every contiguous run of a tile's bytes, with its position in the file.
template <class Each>
void for_each_run(const Tile& tile, std::span<std::byte> bytes, Each&& each) {
  const std::uint64_t size = size_of(tile.tensor->dtype);
  const auto height = static_cast<std::uint64_t>(tile.tensor->source.shape.at(0));
  const std::uint64_t columns = tile.rows == height ? tile.columns : 1;  // in one run
  const std::uint64_t run = columns * tile.rows * size;
  for (std::uint64_t column = 0; column < tile.columns; column += columns) {
    each(tile.tensor->offset + ((tile.column + column) * height + tile.row) * size,
         bytes.subspan(column * tile.rows * size, run));
  }
}

class Assembly {
 public:
  Assembly(const TensorSource& source, const OutputPlan& plan, const fs::Path& output, Journal& journal,
           std::uint64_t tile_bytes)
      : source_(source),
        plan_(plan),
        journal_(journal),
        windows_(windows_of(plan)),
        tiles_(tiles_of(plan, tile_bytes)) {
    for (const OutputFile& file : plan.files) {
      files_.emplace_back(file.name.empty() ? output : output / file.name, file.bytes);
    }
    records_.resize(windows_.size());
  }

  /// Windows before tiles: windows at the ends of a transposed tensor write zeros where tiles will go.
  void run(int workers, Progress& progress) {
    run_until(windows_.size(), workers, progress);
    run_until(windows_.size() + tiles_.size(), workers, progress);
  }

  /// Each part was verified when it was read; this proves that they were assembled in the right order.
  void prove_checksums() const;

  void finish() {
    for (DirectFile& file : files_) file.finish();
  }

 private:
  /// Produces windows and tiles from the next one up to number `end`.
  void run_until(std::size_t end, int workers, Progress& progress) {
    if (next_ >= end) return;
    const std::uint64_t total = planned_bytes(plan_);
    std::vector<std::future<void>> running;  // waits for the threads when it goes
    try {
      for (int i = 0; i < workers; ++i)
        running.push_back(std::async(std::launch::async, [this, end] { work(end); }));
      for (std::future<void>& worker : running) {
        while (worker.wait_for(kLook) == std::future_status::timeout) progress.show(done_, total);
        worker.get();
      }
    } catch (...) {
      stop_ = true;
      throw;
    }
    next_ = end;  // each worker has taken a number behind it
  }

  void work(std::size_t end) {
    try {
      const checkpoint::BulkMemory buffer(end > windows_.size() ? largest_tile() : kWindowBytes);
      WindowFiller filler(source_);
      for (std::size_t i = next_++; i < end && !stop_; i = next_++) {
        done_ += i < windows_.size() ? make_window(i, filler, buffer.bytes())
                                     : make_tile(i, filler, buffer.bytes());
      }
    } catch (...) {
      stop_ = true;
      throw;
    }
  }

  [[nodiscard]] std::uint64_t largest_tile() const {
    std::uint64_t most = 0;
    for (const Tile& tile : tiles_) most = std::max(most, tile.bytes());
    return most;
  }

  /// Returns how many bytes of the plan that is.
  std::uint64_t make_window(std::size_t number, WindowFiller& filler, std::span<std::byte> buffer) {
    const Window& window = windows_[number];
    const std::uint64_t size = window.end - window.begin;
    const OutputFile& file = plan_.files[window.file];
    DirectFile& into = files_[window.file];
    std::uint64_t here = size;
    for_each_transposed(file, window, [&](std::uint64_t, std::uint64_t bytes) { here -= bytes; });
    // The whole window belongs to transposed tensors: only tiles write there.
    if (here == 0) return 0;
    // A journal record says only that an earlier process wrote this window. Neither was flushed, so after
    // a loss of power the record may be there without the bytes: they are read back and compared.
    const auto earlier = journal_.earlier().find(number);
    if (earlier != journal_.earlier().end() &&
        earlier->second.parts.size() == parts_of(file, window).size()) {
      into.read(window.begin, buffer.first(size));
      // The file may already hold tiles; the record was made when there were zeros in their place.
      for_each_transposed(file, window, [&](std::uint64_t at, std::uint64_t bytes) {
        const auto tiles = buffer.subspan(at, bytes);
        std::ranges::fill(tiles, std::byte{0});
      });
      if (crc32c(buffer.first(size)) == earlier->second.crc) {
        records_[number] = earlier->second;
        return here;
      }
    }
    WindowRecord record = filler.fill(file, window, buffer.first(size));
    record.window = number;
    into.write(window.begin, buffer.first(size));
    journal_.append(record);
    records_[number] = std::move(record);
    return here;
  }

  std::uint64_t make_tile(std::size_t number, WindowFiller& filler, std::span<std::byte> buffer) {
    const Tile& tile = tiles_[number - windows_.size()];
    DirectFile& into = files_[tile.file];
    const auto bytes = buffer.first(tile.bytes());
    const auto earlier = journal_.earlier().find(number);
    if (earlier != journal_.earlier().end()) {
      for_each_run(tile, bytes, [&](std::uint64_t at, auto run) { into.read_piece(at, run); });
      if (crc32c(bytes) == earlier->second.crc) return bytes.size();
    }
    WindowRecord record = filler.fill(tile, bytes);
    record.window = number;
    for_each_run(tile, bytes, [&](std::uint64_t at, auto run) { into.write_piece(at, run); });
    journal_.append(record);
    return bytes.size();
  }

  const TensorSource& source_;
  const OutputPlan& plan_;
  Journal& journal_;
  std::vector<Window> windows_;
  std::vector<Tile> tiles_;
  std::deque<DirectFile> files_;
  std::vector<WindowRecord> records_;  ///< of windows, each written by the worker that made the window
  std::atomic<std::size_t> next_ = 0;  ///< window, or behind them tile
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
};

void Assembly::prove_checksums() const {
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const std::vector<Part> parts = parts_of(plan_.files[windows_[i].file], windows_[i]);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const OutputTensor& tensor = *parts[k].tensor;
      if (tensor.transposed) continue;  // every byte was checked when it was read
      const std::uint64_t size = size_of(tensor.source.dtype);
      // Parts of a tensor follow each other, also across windows, so one running value is enough.
      if (parts[k].begin == 0) crc = 0;
      crc = crc32c_combine(crc, records_[i].parts[k], (parts[k].end - parts[k].begin) * size);
      const bool whole = parts[k].end * size_of(tensor.dtype) == tensor.bytes;
      if (!whole || crc == source_.checksum(tensor.source.name)) continue;
      throw Error(Code::kCheckpoint, "tensor '", tensor.source.name, "' does not match its checksum");
    }
  }
}

}  // namespace

Workers workers_within(std::uint64_t memory_bytes, int jobs, const OutputPlan& plan) {
  std::uint64_t held = kBaseBytes;
  for (const OutputFile& file : plan.files) held += 2 * file.head.size();
  const std::uint64_t worker = kWorkerBytes + merge_bytes(plan, kMergedElements);
  if (memory_bytes < held + worker) {
    throw Error(Code::kUsage, "--mem ", human_bytes(memory_bytes), " is too small; expected at least ",
                human_bytes(held + worker));
  }
  if (jobs == 0) jobs = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kDefaultWorkers);
  const std::uint64_t room = memory_bytes - held;
  const std::uint64_t count = std::min<std::uint64_t>(static_cast<std::uint64_t>(jobs), room / worker);
  // Memory that the windows leave over makes tiles larger: fewer and longer reads of a transposed tensor.
  return {static_cast<int>(count), std::min(room / count - (worker - kWindowBytes), kMostTileBytes)};
}

void assemble(const TensorSource& source, const OutputPlan& plan, const fs::Path& output, Journal& journal,
              const Workers& workers, Progress& progress) {
  Assembly assembly(source, plan, output, journal, workers.tile_bytes);
  assembly.run(workers.count, progress);
  assembly.prove_checksums();
  assembly.finish();
}

}  // namespace echelon::tool
