#pragma once
#include <hdf5.h>

#include "base/dtype.h"
#include "base/not_copied.h"
#include "checkpoint/hdf5/h5_layout.h"

/// Helpers for libhdf5. Internal to the h5_ files.
namespace echelon::checkpoint {

/// Throws Error(kCheckpoint) "libhdf5 could not <what>" when `status` is negative.
void h5_check(herr_t status, const char* what);

/// Owns one libhdf5 handle.
class H5Handle : NotCopied {
 public:
  using Close = herr_t (*)(hid_t);
  /// Throws as h5_check() does when `id` is negative.
  H5Handle(hid_t id, Close close, const char* what);
  ~H5Handle();
  operator hid_t() const { return id_; }
  /// Closes and checks the result: closing a file is what writes it.
  void finish(const char* what);

 private:
  hid_t id_;
  Close close_;
};

/// The type of elements in files; negative when libhdf5 fails.
[[nodiscard]] hid_t h5_type(DType dtype);

/// Turns off libhdf5's own error output; failures are our one-line errors.
void h5_quiet();

/// Creation times would make two layouts of the same tensors differ.
void h5_without_times(hid_t creation);

/// A data set's space; negative when libhdf5 fails.
[[nodiscard]] hid_t h5_space(std::span<const std::uint64_t> shape);

void h5_add_attribute(hid_t object, const H5Attribute& wanted);

}  // namespace echelon::checkpoint
