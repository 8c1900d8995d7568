#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe section `train`.
struct TrainOptions {
  std::string device = "auto";  ///< auto | cpu | cuda | cuda_shared: several ranks may use one GPU
  std::int64_t steps = 1000;
  std::int64_t epochs = 0;                            ///< passes over the data; 0: `steps` counts
  std::int64_t micro_batch_size = 1;                  ///< samples per rank and forward pass
  std::int64_t global_batch_size = 8;                 ///< samples per optimizer step over all ranks
  std::string reduce_gradients = "each_micro_batch";  ///< each_micro_batch | last_micro_batch
  double clip_grad_norm = 1.0;                        ///< 0: no clipping
  double clip_grad_value = 0.0;                       ///< largest gradient element; 0: no clipping
  std::string non_finite = "stop";        ///< stop | skip: a step of non-finite loss or gradients is left out
  std::int64_t max_skipped_steps = 10;    ///< skip: so many in a row stop the run
  std::int64_t validate_every_steps = 0;  ///< 0: never
  std::int64_t validate_every_epochs = 0;  ///< 0: never
  bool deterministic = false;              ///< GPU: the same bits on every run
  std::int64_t threads_per_rank = 0;       ///< compute threads; 0: this node's cores / ranks on it
};

}  // namespace echelon
