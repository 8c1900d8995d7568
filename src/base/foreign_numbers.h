#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace echelon {

/// The numbers of one JSON object and of the objects in it, in their order; no tree is built, so reading
/// millions of lines is quick. Used again and again, it allocates nothing.
class ForeignNumbers {
 public:
  struct Number {
    std::size_t name_at;  ///< where name() begins
    std::size_t name_size;
    double value;  ///< NaN for null
  };
  /// Reads as strictly as read_foreign_json() (foreign_json.h), but a key may occur twice. Returns the
  /// problem, or "". Lists and texts are passed over.
  [[nodiscard]] std::string read(std::string_view text, std::size_t max_bytes);
  [[nodiscard]] const std::vector<Number>& numbers() const { return numbers_; }
  /// "breakdown_s.compute": the keys that lead to the number.
  [[nodiscard]] std::string_view name(const Number& number) const {
    return std::string_view(names_).substr(number.name_at, number.name_size);
  }

 private:
  class Collector;
  std::vector<Number> numbers_;
  std::string names_;
  std::string path_;
};

}  // namespace echelon
