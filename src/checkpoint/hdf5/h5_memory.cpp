#include "checkpoint/hdf5/h5_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "checkpoint/hdf5/h5_handle.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 4096;
constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

/// An open file. The library sees only the H5FD_t at the front and passes it to the callbacks (its convention
/// for file drivers).
struct OpenMemory {
  H5FD_t base{};
  H5Memory* memory = nullptr;
  haddr_t end = 0;  ///< of allocated addresses, as the library sets it

  static OpenMemory& of(H5FD_t* file) { return *reinterpret_cast<OpenMemory*>(file); }
  static const OpenMemory& of(const H5FD_t* file) { return *reinterpret_cast<const OpenMemory*>(file); }
};

H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<H5Memory* const*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenMemory;
  if (file == nullptr) return nullptr;
  file->memory = *info;
  return &file->base;
}

herr_t close(H5FD_t* file) {
  delete &OpenMemory::of(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const H5Memory* one = OpenMemory::of(a).memory;
  const H5Memory* other = OpenMemory::of(b).memory;
  return one == other ? 0 : one < other ? -1 : 1;
}

// No features, above all no aggregation of allocations: each one reaches the driver.
herr_t no_features(const H5FD_t*, unsigned long* flags) {
  *flags = 0;
  return 0;
}

haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t) {
  return OpenMemory::of(file).end;
}

haddr_t allocate(H5FD_t* file, H5FD_mem_t type, hid_t, hsize_t size) {
  H5Memory& memory = *OpenMemory::of(file).memory;
  const bool raw = type == H5FD_MEM_DRAW && !memory.keeps_all;
  std::uint64_t& next = raw ? memory.data_end : memory.metadata_end;
  const std::uint64_t step = raw ? kAlignment : 8;
  const std::uint64_t begin = (std::max(next, raw ? memory.data_begin : 0) + step - 1) / step * step;
  if (size > kMaxAddress - begin || (!raw && begin + size > memory.data_begin)) return HADDR_UNDEF;
  next = begin + size;
  OpenMemory::of(file).end = std::max<haddr_t>(OpenMemory::of(file).end, next);
  return begin;
}

// The library calls this for the superblock, which it places at the front without allocate().
herr_t set_end_of_memory(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  OpenMemory& mine = OpenMemory::of(file);
  mine.end = address;
  if (address <= mine.memory->data_begin)
    mine.memory->metadata_end = std::max(mine.memory->metadata_end, address);
  return 0;
}

haddr_t end_of_memory(const H5FD_t* file, H5FD_mem_t) {
  return OpenMemory::of(file).memory->metadata.empty() ? 0 : OpenMemory::of(file).end;
}

herr_t read_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* to) {
  const std::vector<std::byte>& bytes = OpenMemory::of(file).memory->metadata;
  std::memset(to, 0, size);
  if (address < bytes.size())
    std::memcpy(to, bytes.data() + address, std::min<std::size_t>(size, bytes.size() - address));
  return 0;
}

herr_t write_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* from) {
  H5Memory& memory = *OpenMemory::of(file).memory;
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

H5FD_class_t make_driver() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600);  // of no driver of the library
#endif
  driver.name = "echelon-memory";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(H5Memory*);
  driver.open = open;
  driver.close = close;
  driver.cmp = compare;
  driver.query = no_features;
  driver.alloc = allocate;
  driver.get_eoa = end_of_addresses;
  driver.set_eoa = set_end_of_memory;
  driver.get_eof = end_of_memory;
  driver.read = read_memory;
  driver.write = write_memory;
  constexpr H5FD_mem_t kNoReuse[H5FD_MEM_NTYPES] = H5FD_FLMAP_DEFAULT;
  std::copy(std::begin(kNoReuse), std::end(kNoReuse), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

void h5_make_file(H5Memory& memory, std::uint64_t user_block, std::span<const H5Attribute> root,
                  const std::function<void(hid_t file)>& fill) {
  static const H5FD_class_t kDriver = make_driver();
  static const hid_t driver = H5FDregister(&kDriver);
  h5_quiet();
  const H5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make a property list");
  const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a property list");
  h5_without_times(creation);
  h5_check(H5Pset_userblock(creation, user_block), "set the user block");
  // This format version has checksums for its metadata, so libhdf5 notices a flipped bit there.
  h5_check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose the format version");
  H5Memory* const info = &memory;
  h5_check(H5Pset_driver(access, driver, &info), "use a file in memory");
  H5Handle file(H5Fcreate("memory", H5F_ACC_TRUNC, creation, access), H5Fclose, "make a file");
  for (const H5Attribute& attribute : root) h5_add_attribute(file, attribute);
  fill(file);
  file.finish("finish a file");
  if (memory.out_of_memory) throw std::bad_alloc();
}

}  // namespace echelon::checkpoint
