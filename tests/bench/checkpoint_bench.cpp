// Our side of `./make.sh bench checkpoint`: saves, loads and reshards the state of the 179 M Llama (fp32
// weights and the two states of AdamW, 2.1 GB) with real processes as ranks, beside what memory and disk give
// in the same round. usage: checkpoint_bench FOLDER [RANKS] [LOAD_RANKS] [ROUNDS] [LAYERS]; one JSON line for
// each measurement
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <new>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/rank_save.h"
#include "support/counting_disk.h"
#include "support/llama_tensors.h"

namespace {

using namespace echelon;              // NOLINT
using namespace echelon::checkpoint;  // NOLINT

constexpr int kMaxRanks = 64;
constexpr std::size_t kUnit = std::size_t{8} << 20;
constexpr const char* kSaveId = "0a1b2c3d";

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The units of a fully sharded run: each is cut evenly over the ranks.
std::vector<std::vector<TensorInfo>> units(int layers) {
  std::vector<std::vector<TensorInfo>> all;
  const auto unit = [&](std::vector<TensorInfo> parameters) { all.push_back(std::move(parameters)); };
  unit({{"model.embed_tokens.weight", DType::kF32, {50000, 768}}});
  for (int i = 0; i < layers; ++i) unit(test::llama_block("", i, 768, 192, 3072));
  unit({{"model.norm.weight", DType::kF32, {768}}, {"lm_head.weight", DType::kF32, {50000, 768}}});
  return all;
}

const std::array<std::pair<const char*, const char*>, 3> kStates{
    {{"model/", ""}, {"optim/", "/exp_avg"}, {"optim/", "/exp_avg_sq"}}};

/// What rank `rank` of `ranks` holds of everything: the ranges, and memory for them in one block.
struct RankState {
  std::vector<Slice> slices;
  std::vector<std::uint64_t> at;  ///< where each begins in `memory`
  std::vector<float> memory;

  RankState(int rank, int ranks, int layers) {
    std::uint64_t total = 0;
    for (const auto& unit : units(layers)) {
      std::uint64_t size = 0;
      for (const TensorInfo& tensor : unit) size += element_count(tensor);
      const auto border = [&](int r) {
        return size * static_cast<std::uint64_t>(r) / static_cast<std::uint64_t>(ranks);
      };
      for (const auto& [prefix, suffix] : kStates) {
        std::uint64_t begin = 0;
        for (const TensorInfo& tensor : unit) {
          const std::uint64_t end = begin + element_count(tensor);
          const std::uint64_t from = std::clamp(border(rank), begin, end);
          const std::uint64_t to = std::clamp(border(rank + 1), begin, end);
          if (from < to) {
            slices.push_back({{str(prefix, tensor.name, suffix), tensor.dtype, tensor.shape},
                              from - begin,
                              to - begin,
                              {}});
            at.push_back(total);
            total += to - from;
          }
          begin = end;
        }
      }
    }
    memory.resize(total);
    for (std::size_t i = 0; i < slices.size(); ++i)
      slices[i].bytes = std::as_bytes(std::span(memory).subspan(at[i], slices[i].end - slices[i].begin));
  }

  /// Content by tensor and element only.
  void fill() {
    each([](float& value, float wanted) { value = wanted; });
  }
  void check() {
    each([](const float& value, float wanted) {
      if (value != wanted) throw Error(Code::kCheckpoint, "what was loaded is not what was saved");
    });
  }
  template <class Body>
  void each(Body&& body) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const auto key = static_cast<std::uint32_t>(std::hash<std::string>{}(slices[i].tensor.name));
      for (std::uint64_t j = 0; j < slices[i].end - slices[i].begin; ++j) {
        const auto bits = static_cast<std::uint32_t>(slices[i].begin + j) * 2654435761U ^ key;
        body(memory[at[i] + j], static_cast<float>(bits) * 1e-9F);
      }
    }
  }
  [[nodiscard]] std::uint64_t bytes() const { return memory.size() * sizeof(float); }
};

std::uint64_t status_bytes(const char* key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(line.find(':') + 1)) * 1024;
  }
  return 0;
}

/// What a phase takes of memory beyond what was there before it.
class Extra {
 public:
  Extra() { std::ofstream("/proc/self/clear_refs") << "5"; }  // the peak counts from here
  [[nodiscard]] std::uint64_t bytes() const {
    return status_bytes("VmHWM") - std::min(status_bytes("VmHWM"), before_);
  }

 private:
  std::uint64_t before_ = status_bytes("VmRSS");
};

/// Memory that all ranks see.
struct Shared {
  pthread_barrier_t barrier;
  std::array<double, kMaxRanks> seconds;
  std::array<std::uint64_t, kMaxRanks> counts;
};

class Rank {
 public:
  Rank(Shared& shared, int rank, int ranks, std::filesystem::path folder)
      : shared_(shared), rank_(rank), ranks_(ranks), folder_(std::move(folder)) {}

  void meet() { pthread_barrier_wait(&shared_.barrier); }

  /// `seconds` of the slowest rank, told by rank 0 with the sum of `count`.
  void tell(const char* what, double seconds, std::uint64_t count = 0, std::uint64_t extra = 0) {
    shared_.seconds[static_cast<std::size_t>(rank_)] = seconds;
    shared_.counts[static_cast<std::size_t>(rank_)] = count;
    meet();
    if (rank_ == 0) {
      double slowest = 0;
      std::uint64_t sum = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks_); ++r) {
        slowest = std::max(slowest, shared_.seconds[r]);
        sum += shared_.counts[r];
      }
      std::cout << R"({"what": ")" << what << R"(", "ranks": )" << ranks_ << R"(, "seconds": )" << slowest
                << R"(, "count": )" << sum << R"(, "extra_bytes": )" << extra << "}" << std::endl;
    }
    meet();
  }

  template <class Body>
  void measure(const char* what, Body&& body, std::uint64_t count = 0) {
    meet();
    const double began = now_s();
    body();
    tell(what, now_s() - began, count);
  }

  void raw_write(const RankState& state) {
    const auto path = folder_ / str("raw-", rank_);
    std::filesystem::remove(path);
    measure("raw_write", [&] {
      const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_DIRECT, 0644);
      const std::uint64_t size = state.bytes() / 4096 * 4096;
      if (::fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) throw Error(Code::kCheckpoint, "raw write");
      for (std::uint64_t done = 0; done < size; done += kUnit) {
        const auto n = std::min<std::uint64_t>(kUnit, size - done);
        if (::pwrite(fd, buffer_, n, static_cast<off_t>(done)) != static_cast<ssize_t>(n))
          throw Error(Code::kCheckpoint, "raw write");
      }
      ::fsync(fd);
      ::close(fd);
    });
  }

  void raw_read(const RankState& state) {
    const auto path = folder_ / str("raw-", rank_);
    measure("raw_read", [&] {
      const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT);
      const std::uint64_t size = state.bytes() / 4096 * 4096;
      for (std::uint64_t done = 0; done < size; done += kUnit)
        if (::pread(fd, buffer_, kUnit, static_cast<off_t>(done)) <= 0)
          throw Error(Code::kCheckpoint, "raw read");
      ::close(fd);
    });
    std::filesystem::remove(path);
  }

  void copy(const RankState& state, Staging& staging) {
    measure("memcpy", [&] {
      staging.reset();
      for (std::uint64_t done = 0; done < state.bytes(); done += kUnit) {
        const auto n = std::min<std::uint64_t>(kUnit, state.bytes() - done);
        std::memcpy(staging.take_free([] { return 1.0; }).data(),
                    reinterpret_cast<const std::byte*>(state.memory.data()) + done, n);
      }
    });
  }

  void save(const char* what, const RankState& state, const std::shared_ptr<Staging>& staging, int layers) {
    const auto step = folder_ / "checkpoints" / step_folder_name(1, kSaveId);
    meet();
    if (rank_ == 0) std::filesystem::remove_all(step);
    CommitInfo info{.step = 1, .save_id = kSaveId, .ranks = ranks_, .trainer_state = "{}"};
    for (const auto& unit : units(layers)) {
      for (const auto& [prefix, suffix] : kStates)
        for (const TensorInfo& t : unit)
          info.tensors.push_back({str(prefix, t.name, suffix), t.dtype, t.shape});
    }
    meet();
    const double began = now_s();
    if (!layout_) layout_ = plan_shard(rank_, ranks_, kSaveId, state.slices);
    const Extra extra;
    RankSave saving({.folder = step, .commit = info}, replan_shard(*layout_, kSaveId), state.slices, staging);
    const double created = now_s();
    saving.stage();
    const double staged = now_s();
    const RankSave::Status status = saving.wait(1e6);
    if (status.state != RankSave::State::kDone) throw Error(Code::kCheckpoint, status.error);
    const double ended = now_s();
    tell((std::string(what) + "_create").c_str(), created - began);
    tell((std::string(what) + "_stall").c_str(), staged - began);
    tell(what, ended - began, saving.bytes(), extra.bytes());
  }

  void load(const char* what, RankState& state) {
    std::fill(state.memory.begin(), state.memory.end(), 0.0F);
    test::CountingDisk disk;
    const fs::DiskInUse in_use(disk);
    meet();
    const Extra extra;
    const double began = now_s();
    const Reader reader(folder_);
    std::vector<Reader::Request> requests;
    for (std::size_t i = 0; i < state.slices.size(); ++i) {
      const Slice& slice = state.slices[i];
      requests.push_back(
          {slice.tensor.name, slice.begin, slice.end,
           std::as_writable_bytes(std::span(state.memory).subspan(state.at[i], slice.end - slice.begin))});
    }
    reader.read_many(requests);
    const double seconds = now_s() - began;
    tell(what, seconds, disk.read(), extra.bytes());
    state.check();
  }

  /// Drops the checkpoint's clean pages from the page cache.
  void forget() {
    meet();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (!entry.is_regular_file()) continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
    meet();
  }

 private:
  Shared& shared_;
  int rank_;
  int ranks_;
  std::filesystem::path folder_;
  std::optional<ShardPlan> layout_;  // as the trainer keeps it
  std::byte* buffer_ = static_cast<std::byte*>(::aligned_alloc(4096, kUnit));
};

/// `ranks` processes; each runs `body`. False when any failed.
bool run_ranks(int ranks, const std::filesystem::path& folder, const std::function<void(Rank&, int)>& body) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared{};
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, static_cast<unsigned>(ranks));
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        Rank self(*shared, rank, ranks, folder);
        body(self, rank);
        ::_exit(0);
      } catch (const std::exception& e) {
        std::cerr << "rank " << rank << ": " << e.what() << std::endl;
        ::kill(0, SIGTERM);  // the others wait for this one
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    good = good && status == 0;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: checkpoint_bench FOLDER [RANKS] [LOAD_RANKS] [ROUNDS] [LAYERS]\n";
    return 2;
  }
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const std::filesystem::path folder = argv[1];
  const int ranks = number(2, 2);
  const int load_ranks = number(3, 4);
  const int rounds = number(4, 3);
  const int layers = number(5, 12);
  std::filesystem::create_directories(folder / "checkpoints");
  bool good = run_ranks(ranks, folder, [&](Rank& rank, int number_of_rank) {
    RankState state(number_of_rank, ranks, layers);
    state.fill();
    const auto staging = std::make_shared<Staging>(state.bytes() + 4 * Staging::kWindowBytes);
    for (int round = 0; round < rounds; ++round) {
      rank.copy(state, *staging);
      rank.save("async_save", state, staging, layers);
      rank.raw_write(state);
      rank.save("save", state, std::make_shared<Staging>(4 * Staging::kWindowBytes), layers);
      rank.forget();
      rank.raw_read(state);
      rank.load("load", state);
    }
  });
  good = good && run_ranks(load_ranks, folder, [&](Rank& rank, int number_of_rank) {
           RankState state(number_of_rank, load_ranks, layers);
           for (int round = 0; round < rounds; ++round) {
             rank.forget();
             rank.load("reshard", state);
           }
         });
  return good ? 0 : 1;
}
