#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/fs.h"
#include "metrics/live_exports.h"
#include "text/rouge.h"

namespace echelon {

/// The parts of the time of steps, by what ranks did in them.
struct StepParts {
  double compute_s = 0;      ///< forward and backward, waits not included
  double gather_wait_s = 0;  ///< waiting for weights that nothing hides
  double reduce_wait_s = 0;  ///< waiting for gradients, and for other ranks at the end of a step
  double data_wait_s = 0;    ///< waiting for samples
  double optimizer_s = 0;    ///< norm and update, waits not included
  double other_s = 0;

  [[nodiscard]] double comm_wait_s() const { return gather_wait_s + reduce_wait_s; }
  /// Returns the sums of the parts, those of `more` times `factor`.
  [[nodiscard]] StepParts plus(const StepParts& more, double factor) const {
    return {compute_s + factor * more.compute_s,         gather_wait_s + factor * more.gather_wait_s,
            reduce_wait_s + factor * more.reduce_wait_s, data_wait_s + factor * more.data_wait_s,
            optimizer_s + factor * more.optimizer_s,     other_s + factor * more.other_s};
  }
};

/// A value of all ranks.
struct Spread {
  double min = 0;
  double median = 0;  ///< between the two in the middle where their number is even
  double max = 0;
  int max_rank = 0;  ///< the first rank that has it
};

/// `by_rank`: one value for each rank, at least one.
[[nodiscard]] Spread spread_of(std::vector<double> by_rank);

/// One logged step; a line of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;
  double time_s = 0;  ///< when it was logged, since 1970
  double loss = 0;    ///< mean over the step's predictions that count, all ranks
  double lr = 0;
  double grad_norm = 0;                ///< before clipping
  double epoch = 0;                    ///< passes over the data so far
  std::optional<std::int64_t> tokens;  ///< of sequences, in all steps so far; nothing: there are none, or the
                                       ///< run began with a version that did not count them
  std::int64_t samples = 0;            ///< in all steps so far
  std::optional<double> tokens_per_s;  ///< of sequences; nothing: there are none
  double samples_per_s = 0;
  double step_time_s = 0;          ///< mean over the steps since the line before
  double comm_wait_s = 0;          ///< of it, waiting for collectives that nothing hides; largest over ranks
  double data_wait_s = 0;          ///< of it, waiting for data; largest over ranks
  std::int64_t skipped_steps = 0;  ///< so far: steps left out, which changed no weight
  std::optional<double> loss_scale;  ///< fp16 only
  std::optional<double> mfu;         ///< model FLOP/s over the devices' peak; absent where no peak is known
  std::uint64_t peak_rss_bytes = 0;  ///< largest over ranks
  std::uint64_t peak_device_bytes = 0;  ///< largest over ranks; 0 on the CPU
  std::uint64_t tensor_peak_bytes = 0;  ///< of tensors on the device that computes; largest over ranks
  std::uint64_t sent_bytes = 0;         ///< in collectives of the last step; largest over ranks
  double model_tflops_per_s = 0;        ///< of the model (as for mfu), of one rank
  double save_stall_s = 0;              ///< waiting for saves since the line before
  StepParts breakdown;                  ///< means over ranks, which sum to that of their step times
  std::vector<std::pair<std::string, Spread>> spread;               ///< values of all ranks
  std::vector<std::pair<std::string, std::uint64_t>> memory_bytes;  ///< by purpose; largest over ranks
  std::vector<std::pair<std::string, double>> unit_grad_norms;      ///< on request
  std::optional<double> validation_loss;
  std::optional<double> validation_accuracy;               ///< share of samples; where there are classes
  std::optional<RougeScores> rouge;                        ///< of texts generated in validation
  std::vector<std::pair<std::string, double>> evaluation;  ///< "eval/piqa/acc", "rewards/margins"
};

/// Appends to metrics.jsonl, one JSON object a line, and to the files made from it.
class MetricsFile {
 public:
  MetricsFile() = default;  ///< no file: lines go nowhere
  /// Lines of steps after `resumed_step` (work that was lost with the process that did it) are removed first,
  /// so that every step appears once.
  MetricsFile(std::filesystem::path path, std::int64_t resumed_step,
              const metrics::ExportOptions& exports = {});
  /// A line that cannot be written is a warning, not an error.
  void append(const StepMetrics& metrics);

 private:
  void write(std::int64_t step, const std::string& line);

  std::filesystem::path path_;
  fs::Fd file_;
  metrics::LiveExports exports_;
  bool torn_ = false;  ///< does it end with part of a line?
};

}  // namespace echelon
