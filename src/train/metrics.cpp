#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/str.h"

namespace echelon {
namespace {

/// The file's lines up to `last_step`; a torn last line (the process died while writing) is dropped.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t last_step) {
  std::string kept;
  std::ifstream file(path);
  if (!file) throw Error(Code::kUsage, str("cannot open '", path.string(), "': ", fs::reason(errno)));
  for (std::string line; std::getline(file, line);) {
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("step") || !parsed["step"].is_number_integer()) continue;
    if (parsed["step"].get<std::int64_t>() <= last_step) kept += line + "\n";
  }
  // What could not be read must not be taken for the end: the file is about to be replaced.
  if (!file.eof()) throw Error(Code::kUsage, str("cannot read '", path.string(), "': ", fs::reason(errno)));
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t resumed_step) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) fs::publish_file(path_, lines_up_to(path_, resumed_step), Code::kUsage);
  file_ = fs::open(path_, O_WRONLY | O_CREAT | O_APPEND, Code::kUsage);
}

void MetricsFile::append(const StepMetrics& m) {
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
                              {"peak_device_bytes", m.peak_device_bytes}};
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
  const std::string text = line.dump() + "\n";
  if (::write(file_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    // A full disk must not end a run whose weights are fine; a torn line is dropped at the next resume.
    log::warn(str("step ", m.step, " is missing in '", path_.string(), "': ", fs::reason(errno)));
  }
}

}  // namespace echelon
