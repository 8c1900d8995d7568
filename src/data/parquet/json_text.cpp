#include "data/parquet/json_text.h"

#include <arrow/scalar.h>
#include <arrow/type_traits.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::data {
namespace {

using arrow::Type;

/// `values` as what its type says it is.
template <class Array>
const Array& as(const arrow::Array& values) {
  return static_cast<const Array&>(values);
}

template <class Array>
std::string_view view(const arrow::Array& values, std::int64_t at) {
  return as<Array>(values).GetView(at);
}

}  // namespace

std::string type_without_json(const arrow::DataType& type) {
  if (arrow::is_integer(type.id()) || arrow::is_base_binary_like(type.id())) return "";
  switch (type.id()) {
    case Type::NA:
    case Type::BOOL:
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW: return "";
    case Type::DICTIONARY:
      return type_without_json(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::LIST_VIEW:
    case Type::LARGE_LIST_VIEW:
    case Type::FIXED_SIZE_LIST:
    case Type::MAP:
    case Type::STRUCT:
      for (const auto& field : type.fields()) {
        if (auto found = type_without_json(*field->type()); !found.empty()) return found;
      }
      return "";
    default: return type.ToString();
  }
}

void JsonText::clear() {
  text_.clear();
  fault_.clear();
}

void JsonText::add_string(std::string_view string) {
  text_ += '"';
  for (std::size_t at = 0; at < string.size();) {
    const auto byte = static_cast<unsigned char>(string[at]);
    const std::size_t length = byte < 0x80 ? 1 : utf8_length(string.substr(at));
    if (length == 0) {
      if (fault_.empty()) fault_ = str("not UTF-8 at byte ", at, " of '", printable(string, 40), "'");
      return;
    }
    if (byte < 0x20) {
      text_ += "\\u" + hex_digits(byte, 4);
    } else {
      if (byte == '"' || byte == '\\') text_ += '\\';
      text_ += string.substr(at, length);
    }
    at += length;
  }
  text_ += '"';
}

/// A number with a fraction or an exponent, so that readers take it for what it is.
void JsonText::add_number(double value) {
  if (!std::isfinite(value)) return add("null");
  std::array<char, 32> buffer{};
  const auto* end = std::to_chars(buffer.begin(), buffer.end(), value).ptr;
  const std::string_view number(buffer.begin(), end);
  text_ += number;
  if (number.find_first_of(".e") == std::string_view::npos) text_ += ".0";
}

void JsonText::add_list(const arrow::Array& items, std::int64_t begin, std::int64_t count) {
  text_ += '[';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text_ += ", ";
    add_value(items, begin + i);
  }
  text_ += ']';
}

void JsonText::add_members(const arrow::StructArray& object, std::int64_t at) {
  text_ += '{';
  for (int i = 0; i < object.num_fields(); ++i) {
    if (i > 0) text_ += ", ";
    add_string(object.struct_type()->field(i)->name());
    text_ += ": ";
    add_value(*object.field(i), at);
  }
  text_ += '}';
}

/// As to_pylist() gives maps: a list of keys with their values.
void JsonText::add_pairs(const arrow::MapArray& map, std::int64_t at) {
  text_ += '[';
  for (std::int64_t i = map.value_offset(at); i < map.value_offset(at + 1); ++i) {
    if (i > map.value_offset(at)) text_ += ", ";
    text_ += '[';
    add_value(*map.keys(), i);
    text_ += ", ";
    add_value(*map.items(), i);
    text_ += ']';
  }
  text_ += ']';
}

void JsonText::add_value(const arrow::Array& values, std::int64_t at) {
  const auto add_items = [&](const auto& lists) {
    add_list(*lists.values(), lists.value_offset(at), lists.value_length(at));
  };
  if (values.IsNull(at)) return add("null");
  if (arrow::is_integer(values.type_id())) return add(values.GetScalar(at).ValueOrDie()->ToString());
  switch (values.type_id()) {
    case Type::BOOL: return add(as<arrow::BooleanArray>(values).Value(at) ? "true" : "false");
    case Type::FLOAT: return add_number(as<arrow::FloatArray>(values).Value(at));
    case Type::DOUBLE: return add_number(as<arrow::DoubleArray>(values).Value(at));
    case Type::STRING:
    case Type::BINARY: return add_string(view<arrow::BinaryArray>(values, at));
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY: return add_string(view<arrow::LargeBinaryArray>(values, at));
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW: return add_string(view<arrow::BinaryViewArray>(values, at));
    case Type::DICTIONARY:
      return add_value(*as<arrow::DictionaryArray>(values).dictionary(),
                       as<arrow::DictionaryArray>(values).GetValueIndex(at));
    case Type::LIST: return add_items(as<arrow::ListArray>(values));
    case Type::LARGE_LIST: return add_items(as<arrow::LargeListArray>(values));
    case Type::LIST_VIEW: return add_items(as<arrow::ListViewArray>(values));
    case Type::LARGE_LIST_VIEW: return add_items(as<arrow::LargeListViewArray>(values));
    case Type::FIXED_SIZE_LIST: return add_items(as<arrow::FixedSizeListArray>(values));
    case Type::MAP: return add_pairs(as<arrow::MapArray>(values), at);
    case Type::STRUCT: return add_members(as<arrow::StructArray>(values), at);
    default: return add("null");  // NA, whose values are all null
  }
}

}  // namespace echelon::data
