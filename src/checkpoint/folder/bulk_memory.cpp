#include "checkpoint/folder/bulk_memory.h"

#include <sys/mman.h>

#include <new>

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kPage = 4096;

}  // namespace

BulkMemory::BulkMemory(std::uint64_t bytes, Touch when) : mapped_bytes_(bytes + kHugePage), bytes_(bytes) {
  // One huge page more than needed, so that the used part can begin on a huge-page border. NORESERVE: a
  // copy of the state is often larger than what the system would commit in advance.
  mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
  begin_ = static_cast<std::byte*>(mapped_) + ((kHugePage - address % kHugePage) % kHugePage);
  (void)::madvise(begin_, bytes_, MADV_HUGEPAGE);  // without huge pages the system uses small ones
  if (when == Touch::kNow) touch(this->bytes());
}

void BulkMemory::touch(std::span<std::byte> pages) {
  for (std::size_t at = 0; at < pages.size(); at += kPage)
    // volatile: a store that nobody reads could otherwise be optimised away.
    *static_cast<volatile std::byte*>(pages.data() + at) = std::byte{0};
}

BulkMemory::~BulkMemory() {
  ::munmap(mapped_, mapped_bytes_);
}

}  // namespace echelon::checkpoint
