#include "run/progress.h"

#include <iomanip>

#include "base/log.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/status_line.h"

namespace echelon {
namespace {

std::string duration(double seconds) {
  const auto total = static_cast<std::int64_t>(seconds);
  if (total < 60) return str(total, " s");
  if (total < 3600) return str(total / 60, " min ", total % 60, " s");
  return str(total / 3600, " h ", total % 3600 / 60, " min");
}

/// Waiting for data is shown above this share of the step's time.
constexpr double kNoticedWait = 0.05;

std::string rate(const StepMetrics& m) {
  if (m.tokens_per_s) return human_count(static_cast<std::uint64_t>(*m.tokens_per_s)) + " tok/s";
  return human_count(static_cast<std::uint64_t>(m.samples_per_s)) + " samples/s";
}

}  // namespace

Progress::Style Progress::detect() {
  if (status_line::is_off()) return Style::kNone;
  return status_line::is_live() ? Style::kBar : Style::kLines;
}

Progress::Progress(Style style, std::int64_t first_step, std::int64_t steps) : style_(style), steps_(steps) {
  if (style_ == Style::kBar && first_step > 1) log::info(str("continuing with step ", first_step));
}

Progress::~Progress() {
  if (style_ == Style::kBar) status_line::show("");
}

void Progress::step(std::int64_t step, double loss, double step_time_s) {
  if (style_ != Style::kBar) return;
  constexpr std::size_t kWidth = 24;
  const double share = steps_ > 0 ? static_cast<double>(step) / static_cast<double>(steps_) : 1.0;
  bar_ =
      str("[", status_line::bar(share, kWidth), "] ", step, "/", steps_, "  loss ", fixed(loss, 4), "  ",
          fixed(step_time_s, 2), " s/step  ETA ", duration(static_cast<double>(steps_ - step) * step_time_s));
  status_line::show(bar_);
}

void Progress::line(const StepMetrics& metrics) {
  if (style_ == Style::kNone) return;
  log::info(describe(metrics, steps_));
}

void Progress::state(const std::string& text) {
  if (style_ != Style::kBar) return;
  status_line::show(bar_.empty() ? text : bar_ + "  " + text);
}

std::string describe(const StepMetrics& m, std::int64_t steps) {
  std::string text =
      str("step ", m.step, "/", steps, "  loss ", fixed(m.loss, 4), "  lr ",
          str(std::scientific, std::setprecision(2), m.lr), "  grad ", fixed(m.grad_norm, 3), "  ", rate(m),
          "  ", fixed(m.step_time_s, 2), " s/step  rss ", human_bytes(m.peak_rss_bytes));
  if (m.mfu) text += str("  mfu ", fixed(*m.mfu * 100, 1), " %");
  if (m.peak_device_bytes > 0) text += str("  device ", human_bytes(m.peak_device_bytes));
  if (m.data_wait_s > kNoticedWait * m.step_time_s)
    text += str("  waiting for data ", fixed(m.data_wait_s / m.step_time_s * 100, 0), " %");
  if (m.validation_loss) text += str("  validation loss ", fixed(*m.validation_loss, 4));
  if (m.validation_accuracy) text += str("  accuracy ", fixed(*m.validation_accuracy * 100, 2), " %");
  if (m.rouge) {
    text += str("  rouge1 ", fixed(m.rouge->rouge1, 4), "  rouge2 ", fixed(m.rouge->rouge2, 4), "  rougeL ",
                fixed(m.rouge->rouge_l, 4));
  }
  for (const auto& [name, score] : m.evaluation) text += str("  ", name, " ", fixed(score, 4));
  return text;
}

}  // namespace echelon
