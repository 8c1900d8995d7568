#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace echelon::data {

/// The state of a CSV parser at a character (RFC 4180).
enum class CsvPlace { kFieldStart, kPlain, kQuoted, kQuoteInQuoted };

/// The place behind `c`, which stands at `place`. A quote begins a quoted field at its start only; inside of
/// one, two quotes are one.
[[nodiscard]] CsvPlace after(CsvPlace place, char c);

/// Finds the end of a row that may come in several parts: a newline outside of quotes.
class CsvRowEnd {
 public:
  /// Returns the offset of the newline that ends the row, or npos if the row does not end in `part`. `part`
  /// continues the part before.
  [[nodiscard]] std::size_t find(std::string_view part);

  /// True if the text searched so far ends inside quotes.
  [[nodiscard]] bool is_quoted() const { return place_ == CsvPlace::kQuoted; }

 private:
  CsvPlace place_ = CsvPlace::kFieldStart;
};

/// The fields of a row (without its newline) and why it is malformed: a quote that is never closed, text
/// behind a closing quote. Empty: it is well-formed.
[[nodiscard]] std::string split_csv_row(std::string_view row, std::vector<std::string>& fields);

}  // namespace echelon::data
