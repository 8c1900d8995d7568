// What a rank reads and holds to open a checkpoint of very many shards and to read its own part.
// usage: open_bench FOLDER [SHARDS [LAYERS]]   makes a checkpoint of zeros there that takes its indexes' room
// only. The default is the state of a model of 10^12 parameters with AdamW on 4096 ranks.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>

#include "checkpoint/folder/contents.h"
#include "checkpoint/read/reader.h"
#include "unit/checkpoint/zeros.h"

namespace {

using namespace echelon;              // NOLINT
using namespace echelon::checkpoint;  // NOLINT

constexpr std::int64_t kParameters = 1'000'000'000'000;

class CountingDisk : public fs::Disk {
 public:
  ssize_t pread(int fd, void* to, std::size_t size, off_t offset) override {
    const ssize_t n = Disk::pread(fd, to, size, offset);
    if (n > 0) bytes += static_cast<std::uint64_t>(n);
    return n;
  }
  std::atomic<std::uint64_t> bytes{0};
};

std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// One weight a layer: cut over all ranks, each is in every shard, as slices of large units are.
std::vector<TensorInfo> tensors_of(int layers) {
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".mlp.down_proj.weight";
    for (const std::string& full :
         {"model/" + name, "optim/" + name + "/exp_avg", "optim/" + name + "/exp_avg_sq"})
      tensors.push_back({full, DType::kF32, {kParameters / layers}});
  }
  return tensors;
}

/// In a process of its own, so that each begins with nothing.
void measure(const char* what, const std::function<std::shared_ptr<void>()>& open) {
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    CountingDisk disk;
    const fs::DiskInUse in_use(disk);
    const std::int64_t before = resident_bytes();
    const auto began = std::chrono::steady_clock::now();
    const std::shared_ptr<void> opened = open();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::cout << what << ": " << seconds << " s, " << disk.bytes / 1'000'000 << " MB read, "
              << (resident_bytes() - before) / 1'000'000 << " MB resident\n";
    std::cout.flush();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 4096;
  const auto tensors = tensors_of(argc > 3 ? std::atoi(argv[3]) : 128);
  const fs::Path folder = test::save_zeros(argv[1], tensors, ranks);
  measure("every index", [&] { return std::make_shared<Contents>(load_contents(folder)); });
  measure("opened", [&] { return std::make_shared<Reader>(folder); });
  measure("opened, and the index of one shard", [&] {
    auto reader = std::make_shared<Reader>(folder);
    std::vector<std::byte> bytes(4096);
    for (const TensorInfo& tensor : reader->tensors()) reader->read(tensor.name, 0, 1024, bytes);
    return reader;
  });
}
