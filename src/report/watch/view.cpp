#include "report/watch/view.h"

#include <algorithm>
#include <cmath>
#include <iomanip>

#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/status_line.h"
#include "report/charts/text.h"
#include "report/watch/plot.h"

namespace echelon::report {
namespace {

enum class Tone { kPlain, kStrong, kGood, kBad, kSoft };

const char* code_of(Tone tone) {
  switch (tone) {
    case Tone::kPlain: return "";
    case Tone::kStrong: return "\033[1m";
    case Tone::kGood: return "\033[32m";
    case Tone::kBad: return "\033[31m";
    case Tone::kSoft: return "\033[2m";
  }
  return "";
}

/// The first `columns` characters.
std::string cut(const std::string& text, int columns) {
  std::size_t at = 0;
  for (int n = 0; n < columns && at < text.size(); ++n)
    at += std::max<std::size_t>(1, utf8_length(std::string_view(text).substr(at, 4)));
  return text.substr(0, at);
}

/// Where a text that is wider than `columns` is best broken: between two of its parts, else between words.
std::size_t end_of_line(const std::string& text, int columns) {
  constexpr int kNarrow = 20;
  const auto width = static_cast<std::size_t>(std::max(kNarrow, columns));
  if (text.size() <= width) return text.size();
  const std::size_t comma = text.rfind(", ", width - 1) + 1;  // 0: there is none
  const std::size_t gap = text.rfind("  ", width) + 1;
  const std::size_t word = text.rfind(' ', width) + 1;
  const std::size_t at = std::max(comma, gap > 0 ? gap - 1 : 0);
  if (at > 0) return at;
  return word > 0 ? word - 1 : text.size();
}

/// Collects the lines of a screen.
class Lines {
 public:
  explicit Lines(const ViewSize& size) : size_(size) {}
  void add(const std::string& text, Tone tone = Tone::kPlain) {
    const std::string shown = cut(text, size_.columns);
    const bool toned = size_.color && tone != Tone::kPlain && !shown.empty();
    lines_.push_back(toned ? str(code_of(tone), shown, "\033[0m") : shown);
  }
  void add_as_it_is(const std::string& line) { lines_.push_back(line); }
  /// A name and what is said of it, on a second line what does not fit; nothing when that is empty.
  void fact(const std::string& name, const std::string& text, Tone tone = Tone::kPlain) {
    constexpr std::size_t kName = 8;
    if (text.empty()) return;
    const std::string all = foreign_text(text);
    const std::size_t end = end_of_line(all, size_.columns - static_cast<int>(kName));
    add(name + std::string(kName - std::min(kName, name.size()), ' ') + all.substr(0, end), tone);
    if (end < all.size()) add(std::string(kName, ' ') + all.substr(all.find_first_not_of(' ', end)), tone);
  }
  [[nodiscard]] std::size_t count() const { return lines_.size(); }
  [[nodiscard]] std::vector<std::string> take() {
    if (lines_.size() > static_cast<std::size_t>(size_.rows))
      lines_.resize(static_cast<std::size_t>(size_.rows));
    return std::move(lines_);
  }

 private:
  ViewSize size_;
  std::vector<std::string> lines_;
};

Tone tone_of(RunState state) {
  switch (state) {
    case RunState::kRunning:
    case RunState::kFinished: return Tone::kGood;
    case RunState::kSilent:
    case RunState::kFailed:
    case RunState::kKilled: return Tone::kBad;
    case RunState::kUnknown:
    case RunState::kStopped: return Tone::kStrong;
  }
  return Tone::kPlain;
}

/// "name value" of a series' last value; empty without one.
std::string last(const MetricsLog& metrics, const char* series, const std::string& name, Quantity quantity) {
  const Series* found = metrics.find(series);
  return found == nullptr ? "" : str(name, shown(found->last().y, quantity));
}

std::string joined(const std::vector<std::string>& parts) {
  std::vector<std::string> some;
  std::ranges::copy_if(parts, std::back_inserter(some),
                       [](const std::string& part) { return !part.empty(); });
  return join(some, "  ");
}

std::string ago(double seconds) {
  return seconds < 1 ? "just now" : shown_time(std::floor(seconds)) + " ago";
}

std::string newest_save(const RunRecord& run, double now_s) {
  if (run.checkpoints.empty()) return "nothing yet";
  const Checkpoint& newest = run.checkpoints.back();
  std::string text = str("step ", shown(static_cast<double>(newest.step), Quantity::kStep), ", ",
                         ago(now_s - newest.time_s));
  for (const Save& save : run.log.saves) {
    if (save.step == newest.step)
      return str(text, ", took ", shown(save.seconds, Quantity::kSeconds), ", training waited ",
                 shown(save.stall_s, Quantity::kSeconds));
  }
  return text;
}

/// "06:45 UTC", on another day than `now_s` "2026-11-25 06:45 UTC".
std::string minute(double time_s, double now_s) {
  constexpr std::size_t kDay = 10;
  constexpr std::size_t kMinute = 16;
  const std::string text = shown_utc(time_s);
  const bool today = text.substr(0, kDay) == shown_utc(now_s).substr(0, kDay);
  return str(today ? text.substr(kDay + 1, kMinute - kDay - 1) : text.substr(0, kMinute), " UTC");
}

std::string times(const RunRecord& run, const MetricsLog& metrics, double now_s) {
  std::string text;
  if (run.account.allocated_s > 0) {
    text = str(shown_time(run.account.allocated_s), " in ", counted(run.starts.size(), "start"), ", goodput ",
               shown_per_mille(run.account.good_per_mille()));
  }
  if (const auto left_s = run.left_s(metrics)) {
    text += str(text.empty() ? "" : ", ", shown_time(*left_s), " left, until about ",
                minute(now_s + *left_s, now_s));
  }
  return text;
}

void add_nodes(const RunRecord& run, double now_s, Lines& lines) {
  if (run.state != RunState::kRunning) return;
  const NodeSigns& signs = run.nodes;
  constexpr double kOld_s = 30;
  if (signs.nodes.empty() || now_s - signs.time_s > kOld_s)
    return lines.fact("rank 0", str("wrote ", ago(now_s - run.changed_s)));
  std::vector<std::string> texts;
  bool bad = false;
  constexpr std::size_t kMostNamed = 8;
  // Nodes that are not well come first; the others are counted if they are many.
  for (const NodeSign& node : signs.nodes) {
    if (node.state == "alive" || node.state == "left") continue;
    bad = true;
    if (texts.size() < kMostNamed)
      texts.push_back(str(node.host, " ", node.state, " for ", shown_time(node.silent_s)));
  }
  const auto alive = static_cast<std::size_t>(
      std::ranges::count_if(signs.nodes, [](const NodeSign& n) { return n.state == "alive"; }));
  double oldest_s = 0;
  for (const NodeSign& node : signs.nodes)
    oldest_s = std::max(oldest_s, node.state == "alive" ? node.silent_s : 0);
  if (signs.nodes.size() <= kMostNamed && !bad) {
    for (const NodeSign& node : signs.nodes)
      texts.push_back(
          str(node.host, " ", node.state == "alive" ? shown(node.silent_s, Quantity::kSeconds) : node.state));
    return lines.fact("nodes", str(join(texts, "  "), "  (last heartbeat)"));
  }
  texts.push_back(str(alive, " of ", signs.nodes.size(), " alive, oldest heartbeat ",
                      shown(oldest_s, Quantity::kSeconds)));
  lines.fact("nodes", join(texts, "  "), bad ? Tone::kBad : Tone::kPlain);
}

void add_curve(const MetricsLog& metrics, const ViewSize& size, int rows, Lines& lines) {
  const Series* loss = metrics.find("loss");
  constexpr int kLabel = 9;
  constexpr int kFewest = 3;
  if (loss == nullptr || rows < kFewest || size.columns < 2 * kLabel) return;
  const std::vector<std::string> drawn =
      plot(loss->points(), {.columns = size.columns - kLabel, .rows = rows, .braille = size.utf8});
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    std::string label;
    if (i == 0)
      label = significant(loss->greatest().y, 4);
    else if (i + 1 == drawn.size())
      label = significant(loss->least().y, 4);
    lines.add(str(std::setw(kLabel - 1), label, " ", drawn[i]));
  }
}

}  // namespace

std::vector<std::string> view(const RunRecord& run, const MetricsLog& metrics, double now_s,
                              const ViewSize& size) {
  Lines lines(size);
  const std::string steps = run.steps ? str(run.step, "/", *run.steps) : str(run.step);
  lines.add(foreign_text(str(run.name, "  ", word_of(run.state), "  step ", steps)), tone_of(run.state));
  if (run.steps && *run.steps > 0) {
    const double share = static_cast<double>(run.step) / static_cast<double>(*run.steps);
    const std::string percent = shown(share, Quantity::kShare);
    const int width = std::max(4, size.columns - static_cast<int>(percent.size()) - 3);
    lines.add(str("[", status_line::bar(share, static_cast<std::size_t>(width)), "] ", percent));
  }
  Lines below(size);
  const auto memory = [&](const char* series, const char* name) {
    const Series* found = metrics.find(series);
    return found == nullptr || !(found->last().y > 0) ? ""
                                                      : str(name, shown(found->last().y, Quantity::kBytes));
  };
  below.fact("speed", joined({last(metrics, "tokens_per_s", "tokens/s ", Quantity::kNumber),
                              last(metrics, "step_time_s", "step ", Quantity::kSeconds),
                              last(metrics, "mfu", "MFU ", Quantity::kShare)}));
  below.fact("waits", joined({last(metrics, "comm_wait_s", "for ranks ", Quantity::kSeconds),
                              last(metrics, "data_wait_s", "for data ", Quantity::kSeconds)}));
  below.fact("memory", joined({memory("peak_rss_bytes", "process "), memory("peak_device_bytes", "device "),
                               memory("tensor_peak_bytes", "tensors ")}));
  below.fact("saved", newest_save(run, now_s));
  add_nodes(run, now_s, below);
  below.fact("time", times(run, metrics, now_s));
  if (!run.log.events.empty()) {
    const Event& newest = run.log.events.back();
    below.fact("last", str(shown_utc(newest.time_s), ": ", newest.text),
               tone_of(run.state) == Tone::kBad ? Tone::kBad : Tone::kSoft);
  }
  const std::string losses = joined({last(metrics, "loss", "loss ", Quantity::kNumber),
                                     last(metrics, "validation_loss", "validation ", Quantity::kNumber),
                                     last(metrics, "lr", "lr ", Quantity::kNumber),
                                     last(metrics, "grad_norm", "gradient ", Quantity::kNumber)});
  constexpr int kMostRows = 12;
  const int room = size.rows - static_cast<int>(lines.count() + below.count()) - (losses.empty() ? 0 : 1);
  lines.add(losses, Tone::kStrong);
  add_curve(metrics, size, std::min(kMostRows, room), lines);
  for (const std::string& line : below.take()) lines.add_as_it_is(line);
  return lines.take();
}

}  // namespace echelon::report
