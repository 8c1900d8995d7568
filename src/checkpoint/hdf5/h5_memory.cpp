#include "checkpoint/hdf5/h5_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 4096;
constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

// libhdf5 sees only the H5FD_t at the front and passes it to the callbacks (its convention for file drivers).
struct MemoryFile {
  H5FD_t base{};
  H5Memory* memory = nullptr;
  haddr_t end = 0;  // end of allocated addresses
};

MemoryFile* self(H5FD_t* file) {
  return reinterpret_cast<MemoryFile*>(file);
}
const MemoryFile* self(const H5FD_t* file) {
  return reinterpret_cast<const MemoryFile*>(file);
}

H5FD_t* open_memory(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<H5Memory* const*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) MemoryFile;
  if (file == nullptr) return nullptr;
  file->memory = *info;
  return &file->base;
}

herr_t close_memory(H5FD_t* file) {
  delete self(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  return self(a)->memory == self(b)->memory ? 0 : (self(a)->memory < self(b)->memory ? -1 : 1);
}

// No features, above all no aggregation of allocations: each one reaches allocate().
herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = 0;
  return 0;
}

haddr_t allocate(H5FD_t* file, H5FD_mem_t type, hid_t, hsize_t size) {
  H5Memory& memory = *self(file)->memory;
  const bool raw = type == H5FD_MEM_DRAW && !memory.keeps_all;
  std::uint64_t& next = raw ? memory.data_end : memory.metadata_end;
  const std::uint64_t step = raw ? kAlignment : 8;
  const std::uint64_t begin = (std::max(next, raw ? memory.data_begin : 0) + step - 1) / step * step;
  if (size > kMaxAddress - begin || (!raw && begin + size > memory.data_begin)) return HADDR_UNDEF;
  next = begin + size;
  self(file)->end = std::max<haddr_t>(self(file)->end, next);
  return begin;
}

haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t) {
  return self(file)->end;
}

// The library calls this for the superblock, which it places at the front without allocate().
herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  MemoryFile& mine = *self(file);
  mine.end = address;
  if (address <= mine.memory->data_begin)
    mine.memory->metadata_end = std::max(mine.memory->metadata_end, address);
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return self(file)->memory->metadata.empty() ? 0 : self(file)->end;
}

herr_t read_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* to) {
  const std::vector<std::byte>& bytes = self(file)->memory->metadata;
  std::memset(to, 0, size);
  if (address < bytes.size())
    std::memcpy(to, bytes.data() + address, std::min<std::size_t>(size, bytes.size() - address));
  return 0;
}

herr_t write_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* from) {
  H5Memory& memory = *self(file)->memory;
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

H5FD_class_t make_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600);
#endif
  driver.name = "echelon-memory";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(H5Memory*);
  driver.open = open_memory;
  driver.close = close_memory;
  driver.cmp = compare;
  driver.query = query;
  driver.alloc = allocate;
  driver.get_eoa = end_of_addresses;
  driver.set_eoa = set_end_of_addresses;
  driver.get_eof = end_of_file;
  driver.read = read_memory;
  driver.write = write_memory;
  constexpr H5FD_mem_t kNoReuse[H5FD_MEM_NTYPES] = H5FD_FLMAP_DEFAULT;
  std::copy(std::begin(kNoReuse), std::end(kNoReuse), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

bool use_memory(hid_t access, H5Memory* memory) {
  static const H5FD_class_t kDriver = make_class();
  static const hid_t id = H5FDregister(&kDriver);
  return id >= 0 && H5Pset_driver(access, id, &memory) >= 0;
}

}  // namespace echelon::checkpoint
