#pragma once
#include <cstdint>
#include <optional>

namespace echelon {

/// An integer that remembers that it once did not fit in 64 bits.
class Checked {
 public:
  Checked(std::int64_t value) : value_(value) {}  // NOLINT: meant to be implicit
  Checked operator+(const Checked& other) const {
    Checked sum = *this;
    sum.overflow_ = __builtin_add_overflow(value_, other.value_, &sum.value_) || overflow_ || other.overflow_;
    return sum;
  }
  Checked operator*(const Checked& other) const {
    Checked product = *this;
    product.overflow_ =
        __builtin_mul_overflow(value_, other.value_, &product.value_) || overflow_ || other.overflow_;
    return product;
  }
  [[nodiscard]] std::optional<std::int64_t> value() const {
    return overflow_ ? std::nullopt : std::optional<std::int64_t>(value_);
  }

 private:
  std::int64_t value_;
  bool overflow_ = false;
};

}  // namespace echelon
