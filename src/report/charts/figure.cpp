#include "report/charts/figure.h"

#include <array>

#include "base/foreign_text.h"
#include "base/str.h"

namespace echelon::report {
namespace {

std::string swatch(const Key& key) {
  const std::string style = str("s", key.style);
  std::string mark;
  switch (key.mark) {
    case Key::Mark::kLine: mark = str("<path class=\"line ", style, "\" d=\"M0 6H26\"/>"); break;
    case Key::Mark::kDots:
      mark = str("<circle class=\"dot ", style, "\" cx=\"13\" cy=\"6\" r=\"4\"/>");
      break;
    case Key::Mark::kBand:
      mark = "<rect class=\"band\" x=\"1\" y=\"0.5\" width=\"24\" height=\"11\"/>";
      break;
    case Key::Mark::kArea:
      mark = str("<rect class=\"area ", style, "\" x=\"1\" y=\"0.5\" width=\"24\" height=\"11\"/>");
      break;
  }
  return str("<svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">", mark, "</svg>");
}

std::string legend(const std::vector<Key>& keys) {
  if (keys.size() < 2) return "";
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < keys.size(); ++i)
    html += str("<li data-key=\"", i, "\">", swatch(keys[i]), as_html(keys[i].name), "</li>");
  return html + "</ul>";
}

}  // namespace

std::string html_table(const Table& table, const char* style) {
  std::string html =
      str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
          as_html(table.caption.empty() ? "Table" : table.caption), "\"><table class=\"", style, "\">");
  if (!table.caption.empty()) html += str("<caption>", as_html(table.caption), "</caption>");
  html += "<thead><tr>";
  for (const std::string& column : table.columns) html += str("<th scope=\"col\">", as_html(column), "</th>");
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += i == 0 ? str("<th scope=\"row\">", as_html(row[i]), "</th>")
                     : str("<td>", as_html(row[i]), "</td>");
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>";
}

std::string figure(const Frame& frame, const std::vector<Key>& keys, double width, double height,
                   const std::string& svg, const Table& data, const std::string& attributes) {
  const std::string id = as_html(frame.id);
  std::string html =
      str("<figure class=\"chart", frame.wide ? " spread" : "", "\" id=\"", id, "\"><figcaption><h3>",
          as_html(frame.title), "</h3><p>", as_html(frame.description), "</p></figcaption>", legend(keys));
  html +=
      str("<div class=\"plot\"><svg role=\"img\" tabindex=\"0\" viewBox=\"0 0 ", trimmed(width), " ",
          trimmed(height), "\" aria-labelledby=\"", id, "-t ", id, "-d\" ", attributes, "><title id=\"", id,
          "-t\">", as_html(frame.title), "</title><desc id=\"", id, "-d\">", as_html(frame.description),
          "</desc>\n", svg, "</svg><output class=\"read\" aria-live=\"polite\"></output></div>");
  if (!frame.note.empty()) html += str("<p class=\"note\">", as_html(frame.note), "</p>");
  if (!data.rows.empty()) {
    html += str("<details><summary>Data: ", as_html(frame.title), "</summary>", html_table(data, "data"),
                "</details>");
  }
  return html + "</figure>\n";
}

std::string patterns() {
  // A line of another direction for each style: areas are told apart without their colors.
  static constexpr std::array<const char*, kAreaStyles> kDrawn{"",
                                                               "M0 8L8 0M-2 2L2 -2M6 10L10 6",
                                                               "M0 4H8",
                                                               "M4 0V8",
                                                               "M0 0L8 8M-2 6L2 10M6 -2L10 2",
                                                               "M2 2h2v2h-2zM6 6h2v2h-2z",
                                                               "M0 4H8M4 0V8",
                                                               "M0 2H8M0 6H8",
                                                               "M0 8L8 0M-2 2L2 -2M6 10L10 6M0 0L8 8",
                                                               "M2 0V8M6 0V8",
                                                               "M0 6L4 2L8 6",
                                                               "M4 2v4"};
  std::string html = "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>";
  for (std::size_t i = 0; i < kDrawn.size(); ++i) {
    html += str("<pattern id=\"p", i,
                "\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect class=\"f", i % kStyles,
                "\" width=\"8\" height=\"8\"/><path class=\"hatch\" d=\"", kDrawn[i], "\"/></pattern>");
  }
  return html + "</defs></svg>\n";
}

}  // namespace echelon::report
