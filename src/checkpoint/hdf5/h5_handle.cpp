#include "checkpoint/hdf5/h5_handle.h"

#include "base/error.h"

namespace echelon::checkpoint {
namespace {

// An IEEE-like little-endian float of 16 bits. bf16 needs the bias 127 of its eight exponent bits.
hid_t make_half(std::size_t exponent_bits, std::size_t bias) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  if (type < 0) return type;
  const std::size_t mantissa = 15 - exponent_bits;
  if (H5Tset_fields(type, 15, mantissa, exponent_bits, 0, mantissa) < 0 || H5Tset_size(type, 2) < 0 ||
      H5Tset_ebias(type, bias) < 0) {
    H5Tclose(type);
    return -1;
  }
  return type;
}

}  // namespace

void h5_check(herr_t status, const char* what) {
  if (status < 0) throw Error(Code::kCheckpoint, "libhdf5 could not ", what);
}

H5Handle::H5Handle(hid_t id, Close close, const char* what) : id_(id), close_(close) {
  h5_check(id < 0 ? -1 : 0, what);
}

H5Handle::~H5Handle() {
  if (id_ >= 0) close_(id_);
}

void H5Handle::finish(const char* what) {
  h5_check(close_(std::exchange(id_, -1)), what);
}

hid_t h5_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return H5Tcopy(H5T_IEEE_F32LE);
    case DType::kBF16: return make_half(8, 127);
    case DType::kF16: return make_half(5, 15);
    case DType::kF64: return H5Tcopy(H5T_IEEE_F64LE);
    case DType::kI32: return H5Tcopy(H5T_STD_I32LE);
    case DType::kI64: return H5Tcopy(H5T_STD_I64LE);
    case DType::kU8: return H5Tcopy(H5T_STD_U8LE);
  }
  return -1;
}

void h5_quiet() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

void h5_without_times(hid_t creation) {
  h5_check(H5Pset_obj_track_times(creation, false), "turn time stamps off");
}

void h5_add_attribute(hid_t object, const H5Attribute& wanted) {
  const hsize_t size = wanted.values.size();
  const H5Handle space(wanted.scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, nullptr), H5Sclose,
                       "make a space");
  const H5Handle attribute(
      H5Acreate2(object, wanted.name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "make an attribute");
  if (size != 0) h5_check(H5Awrite(attribute, H5T_NATIVE_INT64, wanted.values.data()), "write an attribute");
}

hid_t h5_space(std::span<const std::uint64_t> shape) {
  if (shape.empty()) return H5Screate(H5S_SCALAR);
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
}

}  // namespace echelon::checkpoint
