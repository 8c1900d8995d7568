#pragma once
#include <map>
#include <string>

#include "checkpoint/options.h"
#include "train/run_folder.h"

namespace echelon::app {

/// The tokenizer's files and generation settings that came with the weights, name -> content: of the run's
/// newest checkpoint, else of checkpoint.init_from. A run attaches them to its own checkpoints, so what is
/// exported after fine-tuning is as complete as what was imported. Called by one rank. Nothing is there when
/// neither can be read: that is reported where their weights are needed.
[[nodiscard]] std::map<std::string, std::string> inherited_files(const CheckpointOptions& options,
                                                                 const RunFolder& folder);

}  // namespace echelon::app
