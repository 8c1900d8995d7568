#include <algorithm>

#include "base/foreign_text.h"
#include "base/str.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

std::string tile(const std::string& name, const std::string& value, const std::string& more = "") {
  return str("<div class=\"tile\"><dt>", as_html(name), "</dt><dd>", as_html(value),
             more.empty() ? "" : str("<small>", as_html(more), "</small>"), "</dd></div>");
}

std::string in_words(const RunRecord& run, double now_s) {
  switch (run.state) {
    case RunState::kRunning: return "is running";
    case RunState::kSilent:
      return str("is recorded as running, but no file has changed for ", shown_time(now_s - run.changed_s),
                 ": it was probably killed");
    case RunState::kFinished: return "has finished";
    case RunState::kStopped: return "was stopped on purpose; the same command goes on from there";
    case RunState::kFailed: return "has failed";
    case RunState::kKilled: return "was killed";
    case RunState::kUnknown: return "is in a state that no file tells";
  }
  return "";
}

std::string tiles(const RunView& view) {
  const RunRecord& run = view.run;
  const MetricsLog& metrics = view.metrics;
  std::string html = "<dl class=\"tiles\">";
  const double share =
      run.steps ? static_cast<double>(run.step) / static_cast<double>(std::max<std::int64_t>(1, *run.steps))
                : 0;
  html += tile("steps", shown(static_cast<double>(run.step), Quantity::kStep),
               run.steps ? str("of ", shown(static_cast<double>(*run.steps), Quantity::kStep), ", ",
                               shown(share, Quantity::kShare))
                         : "");
  if (const Series* loss = metrics.find("loss"))
    html += tile("loss", shown(loss->last().y, Quantity::kNumber),
                 str("least ", shown(loss->least().y, Quantity::kNumber)));
  if (const Series* loss = metrics.find("validation_loss"))
    html += tile("validation loss", shown(loss->last().y, Quantity::kNumber),
                 str("least ", shown(loss->least().y, Quantity::kNumber), " at step ",
                     shown(loss->least().x, Quantity::kStep)));
  const auto add_with_mean = [&](const char* name, const char* series, Quantity quantity) {
    const Series* found = metrics.find(series);
    if (found != nullptr)
      html += tile(name, shown(found->last().y, quantity), str("mean ", shown(found->mean(), quantity)));
    return found != nullptr;
  };
  if (!add_with_mean("tokens/s", "tokens_per_s", Quantity::kNumber))
    add_with_mean("samples/s", "samples_per_s", Quantity::kNumber);
  add_with_mean("MFU", "mfu", Quantity::kShare);
  add_with_mean("step", "step_time_s", Quantity::kSeconds);
  if (run.account.allocated_s > 0) {
    html +=
        tile("goodput", shown_per_mille(run.account.good_per_mille()),
             str("of ", shown_time(run.account.allocated_s), " in ", counted(run.starts.size(), "start")));
  }
  if (const auto left_s = run.left_s(metrics))
    html += tile("time left", shown_time(*left_s), "at the last step's pace");
  if (!run.checkpoints.empty())
    html += tile("checkpoint",
                 str("step ", shown(static_cast<double>(run.checkpoints.back().step), Quantity::kStep)),
                 shown_utc(run.checkpoints.back().time_s));
  return html + "</dl>";
}

/// Returns why the run is not going on: the cause of its last start's end. A stop on purpose is no fault.
std::string reason(const RunRecord& run) {
  if (run.starts.empty() || run.starts.back().cause.empty() || !run.has_ended() ||
      run.state == RunState::kFinished)
    return "";
  const char* style = run.state == RunState::kStopped ? "cause wanted" : "cause";
  return str("<p class=\"", style, "\">", as_html(run.starts.back().cause), "</p>");
}

}  // namespace

std::string header(const RunView& view, const PageOptions& options) {
  const RunRecord& run = view.run;
  std::string html =
      str("<header><p class=\"above\">Echelon run</p><h1>", as_html(run.name), " <span class=\"state ",
          word_of(run.state), "\">", word_of(run.state), "</span></h1>");
  html += str("<p class=\"lead\">The run ", as_html(in_words(run, options.now_s)), ".");
  if (!run.starts.empty()) {
    html += str(" It began at ", shown_utc(run.starts.front().began_s), "; its files were last written at ",
                shown_utc(run.changed_s), ".");
  }
  html += "</p>" + reason(run);
  if (run.steps && *run.steps > 0) {
    html += str("<progress max=\"", *run.steps, "\" value=\"", std::min(run.step, *run.steps),
                "\" aria-label=\"Steps done\"></progress>");
  }
  html += tiles(view);
  if (!run.missing.empty())
    html += str("<p class=\"note\"><a href=\"#missing\">", run.missing.size(),
                run.missing.size() == 1 ? " thing is" : " things are", " missing</a></p>");
  return html + "</header>\n";
}

}  // namespace echelon::report
