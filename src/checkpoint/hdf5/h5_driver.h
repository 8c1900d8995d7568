#pragma once
#include <hdf5.h>

#include <algorithm>
#include <iterator>
#include <new>

namespace echelon::checkpoint {

/// A file driver of libhdf5 whose bytes come from a `Source`: the common part of this module's drivers. The
/// library sees only the H5FD_t at the front and passes it to the callbacks (its convention for file
/// drivers).
template <class Source>
struct H5Driver {
  static constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

  H5FD_t base{};
  Source* source = nullptr;
  haddr_t end = 0;  ///< of allocated addresses, as the library sets it

  static H5Driver& of(H5FD_t* file) { return *reinterpret_cast<H5Driver*>(file); }
  static const H5Driver& of(const H5FD_t* file) { return *reinterpret_cast<const H5Driver*>(file); }

  /// A driver class that can open, close and report its end; the caller adds reading and writing. `number`:
  /// unique among all drivers.
  static H5FD_class_t make_class(const char* name, [[maybe_unused]] int number) {
    H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
    driver.version = H5FD_CLASS_VERSION;
    driver.value = static_cast<H5FD_class_value_t>(number);
#endif
    driver.name = name;
    driver.maxaddr = kMaxAddress;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(Source*);
    driver.open = open;
    driver.close = close;
    driver.query = no_features;
    driver.get_eoa = end_of_addresses;
    driver.set_eoa = set_end_of_addresses;
    constexpr H5FD_mem_t kNoReuse[H5FD_MEM_NTYPES] = H5FD_FLMAP_DEFAULT;
    std::copy(std::begin(kNoReuse), std::end(kNoReuse), std::begin(driver.fl_map));
    return driver;
  }

  /// Makes `access` (a file-access property list) use `source`, which must outlive the file. `driver` must
  /// live as long as the process. False on failure.
  [[nodiscard]] static bool use(hid_t access, const H5FD_class_t& driver, Source* source) {
    static const hid_t id = H5FDregister(&driver);
    return id >= 0 && H5Pset_driver(access, id, &source) >= 0;
  }

  static H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) {
    const auto* info = static_cast<Source* const*>(H5Pget_driver_info(access));
    if (info == nullptr) return nullptr;
    auto* file = new (std::nothrow) H5Driver;
    if (file == nullptr) return nullptr;
    file->source = *info;
    return &file->base;
  }

 private:
  static herr_t close(H5FD_t* file) {
    delete &of(file);
    return 0;
  }
  // No features, above all no aggregation of allocations: each one reaches the driver.
  static herr_t no_features(const H5FD_t*, unsigned long* flags) {
    *flags = 0;
    return 0;
  }
  static haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t) {
    return of(file).end;
  }
  static herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t address) {
    of(file).end = address;
    return 0;
  }
};

}  // namespace echelon::checkpoint
