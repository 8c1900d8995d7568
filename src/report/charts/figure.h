#pragma once
#include <string>
#include <vector>

#include "report/charts/text.h"

namespace echelon::report {

/// Colors and dashes of curves are classes s0 to s7 of the page's style, patterns of areas s0 to s11.
inline constexpr int kStyles = 8;
inline constexpr int kAreaStyles = 12;

/// The frame around a drawing.
struct Frame {
  std::string id;  ///< unique in the page: letters, digits, '-'
  std::string title;
  std::string description;  ///< one sentence: what it shows, for readers and screen readers
  std::string note;         ///< below the drawing; empty: none
  bool wide = false;        ///< over the whole page; a narrow screen scrolls it
};

/// An entry of a legend.
struct Key {
  std::string name;
  int style = 0;
  enum class Mark { kLine, kDots, kArea, kBand } mark = Mark::kLine;
};

/// Rows of texts; the first column names the row.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string caption;  ///< empty: none
};
[[nodiscard]] std::string html_table(const Table& table, const char* style = "");

/// A drawing with its title, legend and data: the whole <figure>. `svg`: what stands within <svg>, in a field
/// of `width` x `height`; `attributes`: more of the <svg>, for the script.
[[nodiscard]] std::string figure(const Frame& frame, const std::vector<Key>& keys, double width,
                                 double height, const std::string& svg, const Table& data,
                                 const std::string& attributes = "");

/// The patterns of areas, once in a page.
[[nodiscard]] std::string patterns();

}  // namespace echelon::report
