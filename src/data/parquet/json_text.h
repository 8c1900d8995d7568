#pragma once
#include <arrow/array.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace echelon::data {

/// The first type within `type` that JSON has no values for, as Arrow names it: times, decimals, unions; "":
/// none.
[[nodiscard]] std::string type_without_json(const arrow::DataType& type);

/// Writes values as Python's json.dumps() does those of pyarrow's to_pylist(), but for numbers that are not
/// finite, which become null. Bytes are taken for text.
class JsonText {
 public:
  /// Begins a new text.
  void clear();

  /// Appends as it is.
  void add(std::string_view json) { text_ += json; }
  void add_string(std::string_view string);
  /// The value at `at`, of a type without type_without_json().
  void add_value(const arrow::Array& values, std::int64_t at);

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Why the text is of no use: a string that is not UTF-8; "": it is.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  void add_number(double value);
  void add_list(const arrow::Array& items, std::int64_t begin, std::int64_t count);
  void add_members(const arrow::StructArray& object, std::int64_t at);
  void add_pairs(const arrow::MapArray& map, std::int64_t at);

  std::string text_;
  std::string fault_;
};

}  // namespace echelon::data
