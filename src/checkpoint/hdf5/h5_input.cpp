#include "checkpoint/hdf5/h5_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

namespace echelon::checkpoint {
namespace {

constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

// libhdf5 sees only the H5FD_t at the front and passes it to the callbacks (its convention for file drivers).
struct InputDriver {
  H5FD_t base{};
  const H5Input* input = nullptr;
  haddr_t end = 0;  // of addresses, as the library sets it
};

InputDriver* self(H5FD_t* file) {
  return reinterpret_cast<InputDriver*>(file);
}
const InputDriver* self(const H5FD_t* file) {
  return reinterpret_cast<const InputDriver*>(file);
}

H5FD_t* open_input_driver(const char*, unsigned flags, hid_t access, haddr_t) {
  const auto* info = static_cast<const H5Input* const*>(H5Pget_driver_info(access));
  if (info == nullptr || (flags & H5F_ACC_RDWR) != 0) return nullptr;
  auto* file = new (std::nothrow) InputDriver;
  if (file == nullptr) return nullptr;
  file->input = *info;
  return &file->base;
}

herr_t close_input(H5FD_t* file) {
  delete self(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = 0;
  return 0;
}

haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t) {
  return self(file)->end;
}

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  self(file)->end = address;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return self(file)->input->bytes;
}

// Reads after the end of the file give zeros, as in the library's own drivers.
herr_t read_input_file(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* to) {
  auto* next = static_cast<char*>(to);
  if (address > kMaxAddress) return -1;
  while (size > 0) {
    const ssize_t got = ::pread(self(file)->input->fd, next, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    next += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  std::memset(next, 0, size);
  return 0;
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) {
  return -1;
}

H5FD_class_t make_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(601);
#endif
  driver.name = "echelon-input";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(const H5Input*);
  driver.open = open_input_driver;
  driver.close = close_input;
  driver.query = query;
  driver.get_eoa = end_of_addresses;
  driver.set_eoa = set_end_of_addresses;
  driver.get_eof = end_of_file;
  driver.read = read_input_file;
  driver.write = refuse_write;
  constexpr H5FD_mem_t kNoReuse[H5FD_MEM_NTYPES] = H5FD_FLMAP_DEFAULT;
  std::copy(std::begin(kNoReuse), std::end(kNoReuse), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

bool use_input(hid_t access, const H5Input* input) {
  static const H5FD_class_t kDriver = make_class();
  static const hid_t id = H5FDregister(&kDriver);
  return id >= 0 && H5Pset_driver(access, id, &input) >= 0;
}

}  // namespace echelon::checkpoint
