#include "report/page/page.h"

#include "base/foreign_text.h"
#include "base/str.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

std::string head(const std::string& title, const PageOptions& options) {
  std::string html = str(kPageBegin, "<html lang=\"en\"><head><meta charset=\"utf-8\">",
                         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
                         // Nothing is fetched, whatever a run's files say.
                         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                         "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">",
                         "<meta name=\"color-scheme\" content=\"light dark\">");
  if (options.reload_s > 0)
    html += str("<meta http-equiv=\"refresh\" content=\"", trimmed(options.reload_s, 0), "\">");
  return html + str("<title>", as_html(title), "</title><link rel=\"icon\" href=\"data:,\"><style>", kStyle,
                    "</style></head>\n");
}

std::string contents(const std::vector<std::pair<const char*, const char*>>& entries) {
  std::string html = "<nav aria-label=\"Sections\"><ul>";
  for (const auto& [id, name] : entries) html += str("<li><a href=\"#", id, "\">", name, "</a></li>");
  return html + "</ul></nav>\n";
}

std::string one_run(const RunView& view, const PageOptions& options) {
  return header(view, options) +
         contents({{"learning", "Learning"},
                   {"throughput", "Throughput"},
                   {"step-time", "Step time"},
                   {"memory", "Memory"},
                   {"life", "Starts and failures"},
                   {"goodput", "Time"},
                   {"forecast", "Forecast"},
                   {"environment", "Recipe"},
                   {"missing", "Missing"}}) +
         "<main>" + learning({view}) + throughput({view}) + step_time(view) + memory(view) + life(view) +
         goodput({view}) + predictions(view) + environment(view) + what_is_missing({view}) + "</main>";
}

std::string several_runs(const std::vector<RunView>& runs) {
  std::string html = str("<header><p class=\"above\">Echelon</p><h1>", runs.size(),
                         " runs compared</h1><p class=\"lead\">Each run's own page has its step times, "
                         "memory, starts and failures: <code>echelon report RUN</code>.</p></header>");
  html += contents({{"compared", "Side by side"},
                    {"learning", "Learning"},
                    {"throughput", "Throughput"},
                    {"goodput", "Time"},
                    {"missing", "Missing"}});
  return html + "<main>" + side_by_side(runs) + learning(runs) + throughput(runs) + goodput(runs) +
         what_is_missing(runs) + "</main>";
}

}  // namespace

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  if (body.empty()) return "";
  return str("<section id=\"", id, "\" aria-labelledby=\"", id, "-h\"><h2 id=\"", id, "-h\">", as_html(title),
             "</h2><div class=\"grid\">\n", body, "</div></section>\n");
}

std::string paragraph(const std::string& text, const char* style) {
  // Words between backticks are commands or keys.
  std::string html;
  bool code = false;
  std::string_view rest = text;
  while (true) {
    const std::size_t tick = rest.find('`');
    html += as_html(rest.substr(0, tick));
    if (tick == std::string_view::npos) break;
    html += code ? "</code>" : "<code>";
    code = !code;
    rest.remove_prefix(tick + 1);
  }
  if (code) html += "</code>";
  return str("<p class=\"", style, "\">", html, "</p>");
}

std::string page(const std::vector<RunView>& runs, const PageOptions& options) {
  const std::string title = runs.size() == 1 ? str(runs[0].run.name, ": ", word_of(runs[0].run.state))
                                             : str(runs.size(), " runs compared");
  return head(title, options) + "<body>" + patterns() +
         (runs.size() == 1 ? one_run(runs[0], options) : several_runs(runs)) +
         str("<footer>Made by Echelon ", as_html(options.version), " at ", shown_utc(options.now_s),
             ".</footer>\n<script>", kScript, "</script></body></html>\n");
}

}  // namespace echelon::report
