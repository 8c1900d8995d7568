#include "checkpoint/hdf5/h5_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/hdf5/h5_driver.h"

namespace echelon::checkpoint {
namespace {

using InputDriver = H5Driver<const H5Input>;

H5FD_t* open_to_read(const char* name, unsigned flags, hid_t access, haddr_t most) {
  return (flags & H5F_ACC_RDWR) != 0 ? nullptr : InputDriver::open(name, flags, access, most);
}

haddr_t end_of_input(const H5FD_t* file, H5FD_mem_t) {
  return InputDriver::of(file).source->bytes;
}

// Reads after the end of the file give zeros, as in the library's own drivers.
herr_t read_input_file(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* to) {
  auto* next = static_cast<char*>(to);
  if (address > InputDriver::kMaxAddress) return -1;
  while (size > 0) {
    const ssize_t got = ::pread(InputDriver::of(file).source->fd, next, size, static_cast<off_t>(address));
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

H5FD_class_t make_input_class() {
  H5FD_class_t driver = InputDriver::make_class("echelon-input", 601);
  driver.open = open_to_read;
  driver.get_eof = end_of_input;
  driver.read = read_input_file;
  driver.write = refuse_write;
  return driver;
}

}  // namespace

bool use_input(hid_t access, const H5Input* input) {
  static const H5FD_class_t kDriver = make_input_class();
  return InputDriver::use(access, kDriver, input);
}

}  // namespace echelon::checkpoint
