#include <algorithm>
#include <initializer_list>
#include <map>

#include "base/str.h"
#include "report/page/common.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

/// A chart of one series of all runs.
std::string series_chart(const std::vector<RunView>& runs, const Frame& frame, Axes axes, const char* name) {
  std::vector<Curve> curves = curves_of(runs, name);
  if (curves.empty()) return "";
  if (runs.size() == 1) {
    axes.marks = resumptions(runs[0].run);
    curves[0].name = frame.title;
  }
  Frame noted = frame;
  if (noted.note.empty()) noted.note = thinning_note(runs[0].metrics, name);
  return line_chart(noted, axes, curves);
}

std::string loss_chart(const RunView& view) {
  std::vector<Curve> curves;
  add_curve(view.metrics, "loss", "training", curves);
  std::vector<std::string> names = view.metrics.names("validation_loss/");
  names.insert(names.begin(), "validation_loss");
  for (const std::string& name : names)
    add_curve(view.metrics, name, "validation" + name.substr(names[0].size()), curves, true);
  std::string note = thinning_note(view.metrics, "loss");
  if (const auto marks = resumptions(view.run); !marks.empty())
    note += str(note.empty() ? "" : " ", "Upright lines: the run went on from a checkpoint.");
  return line_chart({.id = "loss",
                     .title = "Loss",
                     .description = "Mean loss of a target over the steps, in nats.",
                     .note = note},
                    {.y = "nats", .marks = resumptions(view.run)}, curves);
}

/// Several series of one run, by their names.
std::vector<Curve> beside_each_other(const RunView& view, std::initializer_list<const char*> names,
                                     bool dots) {
  std::vector<Curve> curves;
  for (const char* name : names) add_curve(view.metrics, name, name, curves, dots);
  return curves;
}

std::string scores(const std::vector<RunView>& runs) {
  std::string html = series_chart(runs,
                                  {"accuracy", "Validation accuracy",
                                   "Share of validation samples, or pairs of answers, that are told right."},
                                  {.y = "correct", .y_quantity = Quantity::kShare}, "validation_accuracy");
  if (runs.size() > 1) return html;
  return html +
         line_chart({"rouge", "ROUGE", "Scores of texts that validation generated."}, {.y = "F1"},
                    beside_each_other(runs[0], {"rouge1", "rouge2", "rougeL"}, true)) +
         line_chart(
             {"rewards", "Rewards of answers",
              "What DPO has gained on the reference, mean over the pairs of a step."},
             {.y = "reward"},
             beside_each_other(runs[0], {"rewards/chosen", "rewards/rejected", "rewards/margins"}, false));
}

/// The scores of one task; of several runs each has its first score.
std::string task_chart(const std::vector<RunView>& runs, const std::string& task,
                       const std::vector<std::string>& names) {
  std::vector<Curve> curves;
  for (const std::string& name : names) {
    for (Curve& curve : curves_of(runs, name)) {
      if (runs.size() == 1) curve.name = name.substr(name.rfind('/') + 1);
      curve.dots = true;
      curve.style = static_cast<int>(curves.size());
      curves.push_back(std::move(curve));
    }
    if (runs.size() > 1) break;
  }
  return line_chart({.id = "task-" + task,
                     .title = "Task " + task,
                     .description = "Share of the task's questions that are answered rightly."},
                    {.y = "right", .y_quantity = Quantity::kShare}, curves);
}

std::string tasks(const std::vector<RunView>& runs) {
  constexpr std::string_view kPrefix = "eval/";
  std::map<std::string, std::vector<std::string>> by_task;
  for (const std::string& name : runs[0].metrics.names(kPrefix))
    by_task[name.substr(kPrefix.size(), name.rfind('/') - kPrefix.size())].push_back(name);
  std::string html;
  for (const auto& [task, names] : by_task) html += task_chart(runs, task, names);
  return html;
}

/// Norms of units, where the recipe asks for them: the units that had the largest.
std::string unit_norms(const RunView& view) {
  constexpr std::string_view kPrefix = "unit_grad_norms.";
  std::vector<std::string> names = view.metrics.names(kPrefix);
  if (names.empty()) return "";
  const auto most = [&](const std::string& name) { return view.metrics.find(name)->greatest().y; };
  std::ranges::stable_sort(names, [&](const auto& a, const auto& b) { return most(a) > most(b); });
  std::vector<Curve> curves;
  Table all{.columns = {"unit", "last", "greatest", "at step"}};
  for (const std::string& name : names) {
    const Series& series = *view.metrics.find(name);
    const std::string unit = name.substr(kPrefix.size());
    all.rows.push_back({unit, shown(series.last().y, Quantity::kNumber),
                        shown(series.greatest().y, Quantity::kNumber),
                        shown(series.greatest().x, Quantity::kStep)});
    constexpr std::size_t kDrawn = 6;
    if (curves.size() < kDrawn) add_curve(view.metrics, name, unit, curves);
  }
  const std::string note =
      str("Drawn: the ", curves.size(), " of ", names.size(), " units with the greatest norms.");
  return line_chart({.id = "unit-norms",
                     .title = "Gradient norms of units",
                     .description = "Norm of the gradient of each unit, before clipping.",
                     .note = note},
                    {.y = "norm", .may_be_factors = true}, curves) +
         str("<details class=\"wide\"><summary>All ", names.size(), " units</summary>",
             html_table(all, "data"), "</details>");
}

/// Steps over time: pauses, repeated steps and changes of pace are seen at a glance.
std::string progress(const std::vector<RunView>& runs) {
  std::vector<Curve> curves = curves_of(runs, "time");
  for (Curve& curve : curves) {
    double began_s = curve.points.front().y;
    for (const RunView& view : runs) {
      if (curves.size() == 1 && !view.run.starts.empty())
        began_s = std::min(began_s, view.run.starts.front().began_s);
    }
    for (Point& point : curve.points) point = {point.y - began_s, point.x};
    std::ranges::stable_sort(curve.points, {}, &Point::x);
  }
  if (runs.size() == 1 && !curves.empty()) curves[0].name = "step";
  return line_chart({"progress", "Progress", "Steps over the time since the run began, pauses included."},
                    {.x = "time",
                     .x_quantity = Quantity::kSeconds,
                     .y = "step",
                     .y_quantity = Quantity::kStep,
                     .from_zero = true},
                    curves);
}

}  // namespace

std::string learning(const std::vector<RunView>& runs) {
  const bool one = runs.size() == 1;
  std::string html;
  if (one) {
    html += loss_chart(runs[0]);
  } else {
    html += series_chart(runs, {"loss", "Training loss", "Mean loss of a target over the steps, in nats."},
                         {.y = "nats"}, "loss");
    html += series_chart(runs, {"validation", "Validation loss", "Loss on the validation data, in nats."},
                         {.y = "nats"}, "validation_loss");
  }
  html += scores(runs);
  html += tasks(runs);
  html += series_chart(runs, {"grad-norm", "Gradient norm", "Norm of the gradient before clipping."},
                       {.y = "norm", .may_be_factors = true}, "grad_norm");
  html += series_chart(runs, {"lr", "Learning rate", "Learning rate of the step."},
                       {.y = "rate", .from_zero = true}, "lr");
  html += progress(runs);
  if (one) {
    html += series_chart(runs, {"loss-scale", "Loss scale", "Factor of the loss in fp16 training."},
                         {.y = "factor", .may_be_factors = true}, "loss_scale");
    html += unit_norms(runs[0]);
  }
  return section("learning", "Learning", html);
}

std::string throughput(const std::vector<RunView>& runs) {
  const bool tokens =
      std::ranges::any_of(runs, [](const RunView& v) { return v.metrics.find("tokens_per_s") != nullptr; });
  std::string html = series_chart(
      runs,
      {"throughput", "Throughput",
       tokens ? "Tokens per second of all ranks together." : "Samples per second of all ranks together."},
      {.y = tokens ? "tokens/s" : "samples/s", .from_zero = true}, tokens ? "tokens_per_s" : "samples_per_s");
  html += series_chart(
      runs, {"mfu", "Model FLOP/s utilization", "Arithmetic of the model over the peak of all devices."},
      {.y = "MFU", .y_quantity = Quantity::kShare, .from_zero = true}, "mfu");
  html += series_chart(runs,
                       {"tflops", "Model TFLOP/s of a rank",
                        "Arithmetic of the model that a rank does in a second, without recomputation."},
                       {.y = "TFLOP/s", .from_zero = true}, "model_tflops_per_s");
  if (runs.size() > 1) {
    html += series_chart(runs, {"step-time", "Step time", "Duration of a step; the slowest rank's."},
                         {.y = "step", .y_quantity = Quantity::kSeconds, .from_zero = true}, "step_time_s");
  }
  return section("throughput", "Throughput", html);
}

}  // namespace echelon::report
