#include "run/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;

/// The file's lines up to `last_step`; a torn last line (the process died while writing) is dropped.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t last_step) {
  std::string kept;
  std::istringstream file(fs::read_own_file(path, kMostBytes, Code::kEnvironment));  // may be large
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json parsed = read_foreign_json(line).value;
    if (!parsed.is_object() || !parsed.contains("step") || !parsed["step"].is_number_integer()) continue;
    if (parsed["step"].get<std::int64_t>() <= last_step) kept += line + "\n";
  }
  return kept;
}

void add_details(nlohmann::ordered_json& line, const StepMetrics& m) {
  line["model_tflops_per_s"] = m.model_tflops_per_s;
  line["save_stall_s"] = m.save_stall_s;
  line["breakdown_s"] = {
      {"compute", m.breakdown.compute_s},         {"gather_wait", m.breakdown.gather_wait_s},
      {"reduce_wait", m.breakdown.reduce_wait_s}, {"data_wait", m.breakdown.data_wait_s},
      {"optimizer", m.breakdown.optimizer_s},     {"other", m.breakdown.other_s}};
  for (const auto& [name, spread] : m.spread) {
    line["spread"][name] = {
        {"min", spread.min}, {"median", spread.median}, {"max", spread.max}, {"max_rank", spread.max_rank}};
  }
  for (const auto& [category, bytes] : m.memory_bytes) line["memory_bytes"][category] = bytes;
  for (const auto& [unit, norm] : m.unit_grad_norms) line["unit_grad_norms"][unit] = norm;
}

}  // namespace

Spread spread_of(std::vector<double> by_rank) {
  const auto largest = std::ranges::max_element(by_rank);
  Spread spread{.max = *largest, .max_rank = static_cast<int>(largest - by_rank.begin())};
  std::ranges::sort(by_rank);
  const std::size_t half = by_rank.size() / 2;
  spread.min = by_rank.front();
  spread.median = by_rank.size() % 2 == 1 ? by_rank[half] : (by_rank[half - 1] + by_rank[half]) / 2;
  return spread;
}

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t resumed_step,
                         const metrics::ExportOptions& exports)
    : path_(std::move(path)), exports_(path_, exports, resumed_step) {
  // Steps after the checkpoint are trained again; their lines must not occur twice.
  if (std::filesystem::exists(std::filesystem::symlink_status(path_)))
    fs::publish_file(path_, lines_up_to(path_, resumed_step), Code::kEnvironment);
  file_ = fs::open_own(path_, O_WRONLY | O_CREAT | O_APPEND, Code::kEnvironment);
}

void MetricsFile::append(const StepMetrics& m) {
  if (path_.empty()) return;
  nlohmann::ordered_json line{{"step", m.step},
                              {"time", std::round(m.time_s * 1e3) / 1e3},
                              {"loss", m.loss},
                              {"lr", m.lr},
                              {"grad_norm", m.grad_norm},
                              {"epoch", m.epoch},
                              {"tokens", nullptr},
                              {"samples", m.samples},
                              {"tokens_per_s", nullptr},
                              {"samples_per_s", m.samples_per_s},
                              {"step_time_s", m.step_time_s},
                              {"comm_wait_s", m.comm_wait_s},
                              {"data_wait_s", m.data_wait_s},
                              {"skipped_steps", m.skipped_steps},
                              {"mfu", nullptr},
                              {"peak_rss_bytes", m.peak_rss_bytes},
                              {"peak_device_bytes", m.peak_device_bytes},
                              {"tensor_peak_bytes", m.tensor_peak_bytes},
                              {"sent_bytes", m.sent_bytes}};
  if (m.tokens) line["tokens"] = *m.tokens;
  if (m.tokens_per_s) line["tokens_per_s"] = *m.tokens_per_s;
  if (m.mfu) line["mfu"] = *m.mfu;
  if (m.loss_scale) line["loss_scale"] = *m.loss_scale;
  if (m.validation_loss) line["validation_loss"] = *m.validation_loss;
  if (m.validation_accuracy) line["validation_accuracy"] = *m.validation_accuracy;
  if (m.rouge) {
    line["rouge1"] = m.rouge->rouge1;
    line["rouge2"] = m.rouge->rouge2;
    line["rougeL"] = m.rouge->rouge_l;
  }
  for (const auto& [name, score] : m.evaluation) line[name] = score;
  add_details(line, m);
  write(m.step, line.dump());
  exports_.append(line.dump());
}

void MetricsFile::write(std::int64_t step, const std::string& line) {
  const std::string text = str(torn_ ? "\n" : "", line, "\n");
  struct stat before {};
  const bool known = fs::disk().fstat(file_.get(), &before) == 0;
  try {
    fs::write_at(file_, 0, std::as_bytes(std::span(text)), Code::kEnvironment, path_);
    torn_ = false;
  } catch (const Error& e) {
    // A full disk must not end a run whose weights are fine, nor leave part of a line.
    torn_ = !known || fs::disk().ftruncate(file_.get(), before.st_size) != 0;
    log::warn(str("step ", step, " is missing from the metrics: ", e.what()));
  }
}

}  // namespace echelon
