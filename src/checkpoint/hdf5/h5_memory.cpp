#include "checkpoint/hdf5/h5_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "checkpoint/hdf5/h5_driver.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 4096;
using MemoryDriver = H5Driver<H5Memory>;

int compare(const H5FD_t* a, const H5FD_t* b) {
  const H5Memory* one = MemoryDriver::of(a).source;
  const H5Memory* other = MemoryDriver::of(b).source;
  return one == other ? 0 : one < other ? -1 : 1;
}

haddr_t allocate(H5FD_t* file, H5FD_mem_t type, hid_t, hsize_t size) {
  H5Memory& memory = *MemoryDriver::of(file).source;
  const bool raw = type == H5FD_MEM_DRAW && !memory.keeps_all;
  std::uint64_t& next = raw ? memory.data_end : memory.metadata_end;
  const std::uint64_t step = raw ? kAlignment : 8;
  const std::uint64_t begin = (std::max(next, raw ? memory.data_begin : 0) + step - 1) / step * step;
  if (size > MemoryDriver::kMaxAddress - begin || (!raw && begin + size > memory.data_begin))
    return HADDR_UNDEF;
  next = begin + size;
  MemoryDriver::of(file).end = std::max<haddr_t>(MemoryDriver::of(file).end, next);
  return begin;
}

// The library calls this for the superblock, which it places at the front without allocate().
herr_t set_end_of_memory(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  MemoryDriver& mine = MemoryDriver::of(file);
  mine.end = address;
  if (address <= mine.source->data_begin)
    mine.source->metadata_end = std::max(mine.source->metadata_end, address);
  return 0;
}

haddr_t end_of_memory(const H5FD_t* file, H5FD_mem_t) {
  return MemoryDriver::of(file).source->metadata.empty() ? 0 : MemoryDriver::of(file).end;
}

herr_t read_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* to) {
  const std::vector<std::byte>& bytes = MemoryDriver::of(file).source->metadata;
  std::memset(to, 0, size);
  if (address < bytes.size())
    std::memcpy(to, bytes.data() + address, std::min<std::size_t>(size, bytes.size() - address));
  return 0;
}

herr_t write_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* from) {
  H5Memory& memory = *MemoryDriver::of(file).source;
  if (address > memory.data_begin || size > memory.data_begin - address)
    return -1;  // raw data is never written through libhdf5
  try {
    if (memory.metadata.size() < address + size) memory.metadata.resize(address + size);
  } catch (const std::bad_alloc&) {
    // Not reported to the library, which crashes at exit after a failed last flush; the caller checks this
    // flag.
    memory.out_of_memory = true;
    return 0;
  }
  std::memcpy(memory.metadata.data() + address, from, size);
  return 0;
}

H5FD_class_t make_memory_class() {
  H5FD_class_t driver = MemoryDriver::make_class("echelon-memory", 600);
  driver.cmp = compare;
  driver.alloc = allocate;
  driver.set_eoa = set_end_of_memory;
  driver.get_eof = end_of_memory;
  driver.read = read_memory;
  driver.write = write_memory;
  return driver;
}

}  // namespace

bool use_memory(hid_t access, H5Memory* memory) {
  static const H5FD_class_t kDriver = make_memory_class();
  return MemoryDriver::use(access, kDriver, memory);
}

}  // namespace echelon::checkpoint
