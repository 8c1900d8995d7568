#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "train/memory/memory_saves.h"
#include "train/memory/run_memory.h"

namespace echelon {

/// The memory of the nodes; null if nothing is saved there. Collective.
[[nodiscard]] std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options,
                                                     const RunFolder& folder, const JobInfo& job,
                                                     Communicator& comm);

/// Returns `body(saves)`, which trains with saves to `memory` (null: none) and commits the end to disk. Then
/// nothing stays in memory. After an error all of it stays: it may be the newest state. Collective.
int train_with(RunMemory* memory, const CheckpointOptions& options,
               const std::map<std::string, std::string>& attachments, const TrainState& state,
               const std::function<int(MemorySaves*)>& body);

}  // namespace echelon
