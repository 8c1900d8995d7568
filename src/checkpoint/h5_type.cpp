#include "checkpoint/h5_type.h"

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

hid_t make_h5_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return H5Tcopy(H5T_IEEE_F32LE);
    case DType::kBF16:
      return make_half(8, 127);
    case DType::kF16:
      return make_half(5, 15);
    case DType::kF64:
      return H5Tcopy(H5T_IEEE_F64LE);
    case DType::kI32:
      return H5Tcopy(H5T_STD_I32LE);
    case DType::kI64:
      return H5Tcopy(H5T_STD_I64LE);
    case DType::kU8:
      return H5Tcopy(H5T_STD_U8LE);
  }
  return -1;
}

}  // namespace echelon::checkpoint
